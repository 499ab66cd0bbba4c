#include "trainer/gpt2/gpt2_export.h"

#include <cstdio>
#include <system_error>

#include "ddp/error.h"
#include "trainer/gpt2/huggingface.h"
#include "trainer/text/file_aside.h"

namespace ddp {

std::vector<NamedTensor> gpt2_weights(const std::vector<Parameter>& parameters) {
  std::vector<NamedTensor> tensors;
  for (const auto& [name, value, gradient] : parameters) {
    tensors.push_back({name, value});
  }
  return tensors;
}

void require_export_place(const std::filesystem::path& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) {
    throw Error(folder.string() + ": --export cannot make this folder: " + problem.message() +
                "; name another one");
  }
  // By trying: rights, a read-only disk and a full one look different, and end alike. Not finished,
  // so nothing stays.
  const FileAside probe(folder / "config.json");
}

namespace {

/// The head is wte.weight, as in the library (tied), so it is not written a second time.
void write_folder(const std::string& folder, const Gpt2Source& source,
                  const std::vector<Parameter>& parameters) {
  const auto count = [](std::size_t size) { return static_cast<std::int64_t>(size); };
  HuggingFaceConfig config;
  config.vocabulary_size = count(source.config.vocabulary);
  config.positions = count(source.config.context);
  config.channels = count(source.config.channels);
  config.layers = count(source.config.layers);
  config.heads = count(source.config.heads);
  config.end_of_text = source.tokenizer->end_of_text();
  write_huggingface_folder(folder, config, gpt2_weights(parameters), source.tokenizer_files);
}

}  // namespace

void export_gpt2(const Context& context, const std::optional<std::string>& folder,
                 const Gpt2Source& source, const std::vector<Parameter>& parameters) {
  std::string problem;
  if (context.rank() == 0 && folder) {
    try {
      write_folder(*folder, source, parameters);
      std::printf("Model written to %s\n", folder->c_str());
    } catch (const Error& failed) {
      problem = failed.what();
    }
  }
  // If rank 0 alone ended, the others would fail for its loss. Whichever of them the launcher sees
  // first it would take for the cause, and start all again.
  problem = context.group().broadcast_bytes(problem, 0);
  if (!problem.empty()) {
    throw Error(problem);
  }
}

}  // namespace ddp
