// CSV: text with a header line -> columns of numbers or of texts. Pure; RFC 4180 with the usual
// freedoms: quoted fields ("" inside is one quote, line breaks are kept), LF or CRLF, a byte order
// mark, spaces round numbers, blank lines between records. The separator is a comma.
//
// Errors are ddp::Error with one sentence that names the line (from 1, the header's included).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

/// More texts than this in one column are not categories but names, or numbers with a slip.
inline constexpr std::size_t kCategoriesMax = 1000;

/// A column is numeric when each of its fields that is not empty is a number.
struct CsvColumn {
  std::string name;
  /// One value per row, when numeric; then `categories` and `codes` are empty.
  std::vector<double> numbers;
  /// The different texts, in ascending order of bytes, and one index into them per row.
  std::vector<std::string> categories;
  std::vector<std::uint32_t> codes;
  /// The first field that kept the column from being numeric, and its line; 0 when there is none.
  std::string first_text;
  std::size_t first_text_line = 0;

  [[nodiscard]] bool numeric() const { return categories.empty(); }
};

struct CsvTable {
  std::size_t row_count = 0;
  std::vector<CsvColumn> columns;
};

/// Throws on a ragged line (fields found and expected), no rows, no header, two columns of one
/// name, an open quote, an empty field or one that is not finite in a numeric column, and on more
/// than kCategoriesMax texts in a column.
CsvTable parse_csv(std::string_view text);

}  // namespace ddp
