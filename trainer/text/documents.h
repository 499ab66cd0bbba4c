// Documents: the texts to learn from, taken out of the forms that files have them in. Pure: no file
// is opened here. Three forms (docs/text.md): plain text, which is one document; a JSON array of
// records; JSON lines, one record a line. A record is an instruction of the Alpaca data set
// (tatsu-lab/stanford_alpaca) or has its whole text in the field `text`.
//
// Errors are ddp::Error with one sentence that names the line or the record (from 1).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace ddp {

enum class TextForm : std::uint8_t { plain, json, json_lines };

/// ".json" of "A.JSON": other systems write endings in capitals.
std::string ending_of(const std::filesystem::path& path);

/// By the name's ending: .json; .jsonl or .ndjson; anything else is plain text.
TextForm text_form(const std::filesystem::path& path);

/// The form in which the Alpaca data set asks, up to where the answer begins. Without `input` its
/// shorter form.
std::string alpaca_prompt(std::string_view instruction, std::string_view input);

/// Hands over each document, in order. The views hold until `take` returns, but for plain text:
/// that is `text` itself. Needs memory for one record at a time. A plain text without any byte, and
/// an array without a record, have no document.
void for_each_document(TextForm form, std::string_view text,
                       const std::function<void(std::string_view)>& take);

}  // namespace ddp
