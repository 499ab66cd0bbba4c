// The parts of `train gpt2` that take no training: sizes, first weights, samples, schedule,
// options.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "ddp/error.h"
#include "tests/support/temp_dir.h"
#include "trainer/cosine_schedule.h"
#include "trainer/gpt2/config.h"
#include "trainer/gpt2/generation.h"
#include "trainer/gpt2/gpt2_data.h"
#include "trainer/gpt2/parameters.h"
#include "trainer/options.h"
#include "trainer/text/byte_tokenizer.h"
#include "trainer/text/token_file.h"

namespace ddp {
namespace {

/// The exit status of a command line that is none, or -1.
int refused(std::vector<const char*> words) {
  words.insert(words.begin(), "train");
  const auto parsed = parse_options(static_cast<int>(words.size()), words.data());
  const auto* exit = std::get_if<Exit>(&parsed);
  CHECK((exit == nullptr || !exit->mistake.empty()));
  return exit != nullptr ? exit->status : -1;
}

}  // namespace

TEST_CASE("each named size has as many parameters as OpenAI says") {
  CHECK(parameter_count(*gpt2_config("124m", 50257)) == 124439808);
  CHECK(parameter_count(*gpt2_config("350m", 50257)) == 354823168);
  CHECK(parameter_count(*gpt2_config("774m", 50257)) == 774030080);
  CHECK(parameter_count(*gpt2_config("1558m", 50257)) == 1557611200);
  CHECK_FALSE(gpt2_config("huge", 1));
}

TEST_CASE("parameters have Hugging Face's names and shapes, and fill the count") {
  const Gpt2Config config = *gpt2_config("tiny", 257);
  const auto parameters = gpt2_parameters(config);
  std::size_t total = 0;
  for (const Parameter& parameter : parameters) {
    total += parameter.value.size();
  }
  CHECK(total == parameter_count(config));
  const auto& attention = parameters[place(1, Gpt2LayerWeight::attn_weight)];
  CHECK(attention.name == "h.1.attn.c_attn.weight");
  CHECK(attention.value.shape() == Shape{128, 384});
  CHECK(parameters[place(3, Gpt2LayerWeight::fc_proj_bias)].name == "h.3.mlp.c_proj.bias");
  CHECK(parameters[place_of_ln_f(config) + 1].name == "ln_f.bias");
}

TEST_CASE("first weights are GPT-2's normal ones, and depend on the seed alone") {
  const Gpt2Config config = *gpt2_config("tiny", 257);
  const auto parameters = gpt2_parameters(config);
  const auto spread = [&](std::size_t at) {
    double sum = 0;
    double squares = 0;
    for (const float value : parameters[at].value.values<float>()) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    const auto count = static_cast<double>(parameters[at].value.size());
    CHECK(std::abs(sum / count) < 5e-4);
    return std::sqrt(squares / count);
  };
  initialise_gpt2(config, 1, parameters);
  CHECK(spread(place(Gpt2Weight::wte)) == Approx(0.02).epsilon(0.02));
  CHECK(spread(place(2, Gpt2LayerWeight::fc_proj_weight)) ==
        Approx(0.02 / std::sqrt(8.0)).epsilon(0.02));
  CHECK(parameters[place(0, Gpt2LayerWeight::ln_1_weight)].value.to_vector<float>()[5] == 1);
  const auto first = parameters[0].value.to_vector<float>();
  initialise_gpt2(config, 2, parameters);
  CHECK(parameters[0].value.to_vector<float>() != first);
  initialise_gpt2(config, 1, parameters);
  CHECK(parameters[0].value.to_vector<float>() == first);
}

TEST_CASE("behind the tokens' weights lie zeros, as far as a GPU's products read") {
  const Gpt2Config config = *gpt2_config("tiny", 257);
  const auto parameters = gpt2_parameters(config);
  initialise_gpt2(config, 1, parameters);
  const float* wte = parameters[place(Gpt2Weight::wte)].value.data<float>();
  const float* wpe = parameters[place(Gpt2Weight::wpe)].value.data<float>();
  const std::size_t read = padded_vocabulary(config) * config.channels;
  CHECK(padded_vocabulary(config) == 384);
  REQUIRE(wpe - wte >= static_cast<std::ptrdiff_t>(read));
  CHECK(std::all_of(wte + 257 * config.channels, wte + read, [](float x) { return x == 0; }));
}

TEST_CASE("what a run remembers of its samples depends on the tokens and on their cut") {
  const ddprun::test::TempDir dir;
  const ByteTokenizer tokenizer;
  const auto data_of = [&](const std::string& text, std::size_t time, const Tokenizer* known) {
    const auto path = dir.path() / "tokens";
    TokenCacheWriter writer(path, "test", 1, tokenizer.vocabulary_size());
    writer.append(tokenizer.encode(text));
    writer.finish();
    std::vector<TokenFile> files;
    files.push_back(open_token_cache(path, 1, true));
    return Gpt2Data(std::move(files), known,
                    {.sequence_length = time,
                     .validation_share = 0.34,
                     .vocabulary_size = tokenizer.vocabulary_size()});
  };
  const Gpt2Data data = data_of("abcdefghijklm", 3, &tokenizer);  // 4 samples
  REQUIRE(data.train_samples() == 3);
  REQUIRE(data.validation_samples() == 1);
  std::vector<std::int32_t> inputs(3), targets(3);
  data.read_train(1, inputs, targets);
  CHECK(inputs == std::vector<std::int32_t>{'d', 'e', 'f'});
  CHECK(targets == std::vector<std::int32_t>{'e', 'f', 'g'});
  CHECK(data.validation_bytes() == 3);
  CHECK(data_of("abcdefghijklm", 3, nullptr).validation_bytes() == 0);

  CHECK(data.fingerprint() == data_of("abcdefghijklm", 3, &tokenizer).fingerprint());
  CHECK(data.fingerprint() != data_of("abcdefghijklM", 3, &tokenizer).fingerprint());
  CHECK(data.fingerprint() != data_of("abcdefghijklm", 2, &tokenizer).fingerprint());
}

TEST_CASE("bytes come back from the byte tokenizer as they were") {
  const ByteTokenizer tokenizer;
  std::string all;
  for (int c = 0; c < 256; ++c) {
    all += static_cast<char>(c);
  }
  CHECK(tokenizer.decode(tokenizer.encode(all)) == all);
  const std::vector<std::int32_t> beyond = {257};
  CHECK_THROWS_AS(tokenizer.decode(beyond), InvalidArgument);
}

TEST_CASE("the rate rises, then falls along a cosine to a tenth") {
  const CosineSchedule schedule{.peak = 1, .warmup_steps = 4, .total_steps = 104};
  CHECK(schedule.rate(0) == Approx(0.2));
  CHECK(schedule.rate(3) == Approx(0.8));
  CHECK(schedule.rate(4) == Approx(1));
  CHECK(schedule.rate(54) == Approx(0.55));
  CHECK(schedule.rate(104) == Approx(0.1));
  CHECK(schedule.rate(1000) == Approx(0.1));
  CHECK(CosineSchedule{.peak = 1, .warmup_steps = 9, .total_steps = 3}.rate(9) == Approx(1));
}

TEST_CASE("a token is drawn by its probability among the likeliest") {
  const std::vector<float> logits = {0, std::log(3.0F), -50, 0};
  CHECK(sample_token(logits, 0, 0, 0.99) == 1);
  CHECK(sample_token(logits, 1, 1, 0.99) == 1);
  CHECK(sample_token(logits, 1, 0, 0.59) == 1);  // 0.6, then 0.2 each
  CHECK(sample_token(logits, 1, 0, 0.61) == 0);
  CHECK(sample_token(logits, 1, 0, 0.81) == 3);
  CHECK(sample_token(logits, 1, 2, 0.99) == 0);
  CHECK(sample_token(logits, 0.01, 0, 0.99) == 1);
}

TEST_CASE("a command line of gpt2 that makes no sense is refused") {
  CHECK(refused({"gpt2"}) == kUsageStatus);
  CHECK(refused({"gpt2", "--data", "x", "--model", "huge"}) == kUsageStatus);
  CHECK(refused({"gpt2", "--data", "x", "--generate", "y"}) == kUsageStatus);
  CHECK(refused({"gpt2", "--data", "x", "--seq-length", "65"}) == kUsageStatus);
  CHECK(refused({"gpt2", "--data", "x", "--batch-size", "0"}) == kUsageStatus);
  CHECK(refused({"gpt2", "--data", "x", "--experiment-name", "../y"}) == kUsageStatus);
  CHECK(refused({"gpt2", "--data", "x", "--length", "5"}) == kUsageStatus);
  CHECK(refused({"gpt2", "--data", "x", "y", "--num_epochs", "2", "--lr", "0.1"}) == -1);
}

}  // namespace ddp
