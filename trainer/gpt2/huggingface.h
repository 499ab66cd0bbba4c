// Hugging Face folders of GPT-2: config.json, and model.safetensors in one file or in several with
// model.safetensors.index.json. Read and written as the transformers library does, so that a model
// goes from one to the other and back (docs/text.md has what is refused).
//
// Tensors have GPT2Model's names ("wte.weight", "h.0.attn.c_attn.weight", ...) and its shapes: the
// weights of attention and feed-forward layers are stored as (in, out).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "ddp/snapshot.h"
#include "trainer/gpt2/huggingface_config.h"

namespace ddp {

/// What the folder's config.json says; errors begin with its path.
HuggingFaceConfig read_huggingface_config(const std::filesystem::path& folder);

/// Fills the memory of `tensors` (f32, on any device) from the folder. The files may have f32, f16
/// or bf16, and names with or without the prefix "transformer.". Left alone are what no training
/// needs: the attention's masks (attn.bias, attn.masked_bias), and lm_head.weight, which is
/// wte.weight. Throws ddp::Error on a tensor that is missing, has another shape, or is none of
/// GPT-2's; then `tensors` may be filled in part.
void read_huggingface_tensors(const std::filesystem::path& folder,
                              std::span<const NamedTensor> tensors);

/// Makes the folder where it is not there, and writes config.json, model.safetensors and a copy of
/// each of `tokenizer_files` into it, each file under its name at once or not at all. `tensors` are
/// f32; the names get the prefix "transformer.", as in what GPT2LMHeadModel saves. Throws
/// ddp::Error.
void write_huggingface_folder(const std::filesystem::path& folder, const HuggingFaceConfig& config,
                              std::span<const NamedTensor> tensors,
                              std::span<const std::filesystem::path> tokenizer_files);

/// Pure: IEEE 754's half precision, and the upper half of a float, each exactly.
float float_of_f16(std::uint16_t bits);
float float_of_bf16(std::uint16_t bits);

}  // namespace ddp
