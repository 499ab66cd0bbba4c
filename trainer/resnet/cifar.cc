#include "trainer/resnet/cifar.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "ddp/error.h"
#include "trainer/fingerprint.h"
#include "trainer/whole_file.h"

namespace ddp {
namespace {

/// More would be no CIFAR-10; the data set has five. A bound for the search of the first gap.
constexpr int kBatchesMax = 1000;

/// A message of append_cifar() knows the record; the file is named here.
void append_file(const std::filesystem::path& path, LabelledImages& images) {
  std::string bytes;
  try {
    bytes = read_whole_file(path);
  } catch (const Error& problem) {
    throw Error(path.string() + ": " + problem.what() +
                "; --data names the folder with the .bin files of CIFAR-10");
  }
  try {
    append_cifar(bytes, images);
  } catch (const Error& problem) {
    throw Error(path.string() + ": " + problem.what());
  }
}

std::filesystem::path batch_path(const std::filesystem::path& directory, int number) {
  return directory / fmt::format("data_batch_{}.bin", number);
}

}  // namespace

void append_cifar(std::string_view bytes, LabelledImages& images) {
  if (bytes.empty()) {
    throw Error("is empty; copy the file again");
  }
  if (bytes.size() % kCifarRecord != 0) {
    throw Error(
        fmt::format("{} bytes are no whole number of records of {} bytes; copy the file again",
                    bytes.size(), kCifarRecord));
  }
  for (std::size_t at = 0; at < bytes.size(); at += kCifarRecord) {
    const auto label = static_cast<std::uint8_t>(bytes[at]);
    if (label >= kCifarClasses) {
      throw Error(fmt::format("record {} has the label {}; labels of CIFAR-10 are 0 to 9",
                              at / kCifarRecord + 1, label));
    }
    images.labels.push_back(label);
    const auto pixels = bytes.substr(at + 1, kCifarPixels);
    images.pixels.insert(images.pixels.end(), pixels.begin(), pixels.end());
  }
}

/// All in memory: 180 MB, and every epoch reads every image in another order.
CifarData read_cifar(const std::filesystem::path& directory) {
  CifarData data;
  append_file(batch_path(directory, 1), data.train);
  int number = 2;
  while (number <= kBatchesMax && std::filesystem::exists(batch_path(directory, number))) {
    append_file(batch_path(directory, number++), data.train);
  }
  // One that follows a gap was meant to be trained on.
  if (std::filesystem::exists(batch_path(directory, number + 1))) {
    throw Error(fmt::format("{}: is missing, but data_batch_{}.bin is there; copy all of them",
                            batch_path(directory, number).string(), number + 1));
  }
  append_file(directory / "test_batch.bin", data.test);
  // Of what was read, in the order of the files: a resumed training must see the same images.
  Fingerprint all;
  for (const auto* part : {&data.train, &data.test}) {
    all.add(part->pixels);
    all.add(part->labels);
  }
  data.fingerprint = all.text();
  return data;
}

}  // namespace ddp
