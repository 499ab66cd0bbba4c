#include "trainer/csv.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ddp/error.h"

namespace ddp {
namespace {

[[noreturn]] void fail(std::size_t line, const std::string& what) {
  throw Error(fmt::format("line {}: {}", line, what));
}

/// A field may be all the rest of the file, where a quote is missing; a sentence shows its
/// beginning.
std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 40;
  return "'" + std::string(text.substr(0, kShown)) + (text.size() > kShown ? "...'" : "'");
}

/// Splits text into records. Fields are views into the text, or into `unescaped_` where a quoted
/// field had quotes inside: nearly all fields of a large file are read without a copy.
class RecordReader {
 public:
  explicit RecordReader(std::string_view text) : rest_(text) {
    // Spreadsheets write a byte order mark. It would become part of the first column's name.
    if (rest_.starts_with("\xEF\xBB\xBF")) {
      rest_.remove_prefix(3);
    }
  }

  /// Appends the next record's fields; false at the end of the text. Blank lines are passed over.
  bool next(std::vector<std::string_view>& fields) {
    while (!rest_.empty() && (rest_[0] == '\n' || rest_.starts_with("\r\n"))) {
      rest_.remove_prefix(rest_[0] == '\n' ? 1 : 2);
      ++next_line_;
    }
    if (rest_.empty()) {
      return false;
    }
    line_ = next_line_;
    // Each field ends at a comma, at a line break, or at the end of the text.
    while (true) {
      fields.push_back(rest_.starts_with('"') ? quoted_field() : plain_field());
      if (rest_.starts_with(',')) {
        rest_.remove_prefix(1);
        continue;
      }
      if (!rest_.empty()) {
        rest_.remove_prefix(rest_[0] == '\n' ? 1 : 2);
        ++next_line_;
      }
      return true;
    }
  }

  /// Where the record that was read last begins.
  [[nodiscard]] std::size_t line() const { return line_; }

 private:
  std::string_view plain_field() {
    const auto end = std::min(rest_.find_first_of(",\n"), rest_.size());
    auto field = rest_.substr(0, end);
    if (end < rest_.size() && rest_[end] == '\n' && field.ends_with('\r')) {
      field.remove_suffix(1);  // of CRLF; a CR anywhere else is part of the field
    } else if (end == rest_.size() && field.ends_with('\r')) {
      field.remove_suffix(1);  // a last line of CR alone: written on some old systems
      rest_ = {};
      return field;
    }
    rest_.remove_prefix(field.size());
    return field;
  }

  /// RFC 4180: two quotes inside stand for one, and line breaks inside are kept. They count as
  /// lines all the same, so that a message names the line that an editor shows.
  std::string_view quoted_field() {
    rest_.remove_prefix(1);
    std::string* copy = nullptr;
    while (true) {
      const auto end = rest_.find('"');
      if (end == std::string_view::npos) {
        fail(line_, "a quote is opened and never closed");
      }
      const auto part = rest_.substr(0, end);
      next_line_ += static_cast<std::size_t>(std::count(part.begin(), part.end(), '\n'));
      rest_.remove_prefix(end + 1);
      if (copy != nullptr) {
        *copy += part;
      }
      if (!rest_.starts_with('"')) {
        if (!rest_.empty() && rest_[0] != ',' && rest_[0] != '\n' && !rest_.starts_with("\r\n")) {
          fail(line_, "text follows a closing quote");
        }
        return copy != nullptr ? std::string_view(*copy) : part;
      }
      if (copy == nullptr) {
        copy = &unescaped_.emplace_back(part);
      }
      *copy += '"';
      rest_.remove_prefix(1);
    }
  }

  std::string_view rest_;
  std::size_t line_ = 1;
  std::size_t next_line_ = 1;
  std::deque<std::string> unescaped_;  ///< a deque: its strings stay where they are
};

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Depends on no locale: every rank reads the same number. "inf" and "nan" are read as well, so
/// that read_numbers() can reject them by name instead of taking their column for texts.
std::optional<double> parse_number(std::string_view text) {
  text = trim(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') {
    text.remove_prefix(1);
  }
  double value = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (stop != text.data() + text.size()) {
    return std::nullopt;
  }
  if (problem == std::errc::result_out_of_range) {  // infinite, or next to 0
    return std::strtod(std::string(text).c_str(), nullptr);
  }
  return problem == std::errc{} ? std::optional(value) : std::nullopt;
}

/// The records' fields, row by row, and where each row begins.
struct Cells {
  std::vector<std::string_view> fields;
  std::vector<std::size_t> lines;
  std::size_t width = 0;

  [[nodiscard]] std::string_view at(std::size_t row, std::size_t column) const {
    return fields[row * width + column];
  }
};

/// Fills `numbers`, unless a field is no number: then notes the first such one and gives up.
void read_numbers(CsvColumn& column, const Cells& cells, std::size_t index) {
  std::size_t first_empty = 0;
  bool any = false;
  column.numbers.reserve(cells.lines.size());
  for (std::size_t row = 0; row < cells.lines.size(); ++row) {
    const auto field = cells.at(row, index);
    const auto value = parse_number(field);
    const bool empty = trim(field).empty();
    if (!value && !empty) {
      column.first_text = field;
      column.first_text_line = cells.lines[row];
      column.numbers.clear();
      return;
    }
    // An empty field is a mistake only if the column turns out to be numeric.
    if (empty && first_empty == 0) {
      first_empty = cells.lines[row];
    }
    if (value && !std::isfinite(*value)) {
      fail(cells.lines[row], "column " + quoted(column.name) + " holds " + quoted(field) +
                                 ", which is not a finite number");
    }
    any = any || value;
    column.numbers.push_back(value.value_or(0));
  }
  if (!any) {
    column.first_text_line = first_empty;
    column.numbers.clear();
  } else if (first_empty != 0) {
    fail(first_empty, "column " + quoted(column.name) + " is numeric, but empty here");
  }
}

/// Numbers the texts of a column. The map is sorted, so a code depends on which texts there are,
/// and not on the order of the rows.
void read_texts(CsvColumn& column, const Cells& cells, std::size_t index) {
  std::map<std::string_view, std::uint32_t> codes;
  for (std::size_t row = 0; row < cells.lines.size(); ++row) {
    // Checked at each row: a column of names in a large file would fill the memory first.
    codes.try_emplace(cells.at(row, index), 0U);
    if (codes.size() > kCategoriesMax) {
      fail(column.first_text_line,
           fmt::format("column {} holds {}, which is not a number, and has more than {} different "
                       "texts, too many for categories",
                       quoted(column.name), quoted(column.first_text), kCategoriesMax));
    }
  }
  for (auto& [text, code] : codes) {
    code = static_cast<std::uint32_t>(column.categories.size());
    column.categories.emplace_back(text);
  }
  column.codes.reserve(cells.lines.size());
  for (std::size_t row = 0; row < cells.lines.size(); ++row) {
    column.codes.push_back(codes.find(cells.at(row, index))->second);
  }
}

}  // namespace

CsvTable parse_csv(std::string_view text) {
  RecordReader reader(text);
  std::vector<std::string_view> header;
  if (!reader.next(header)) {
    throw Error("has no header line");
  }
  std::set<std::string_view> names;
  for (const auto name : header) {
    if (!names.insert(name).second) {
      fail(reader.line(), "two columns are named " + quoted(name));
    }
  }
  Cells cells;
  cells.width = header.size();
  while (reader.next(cells.fields)) {
    cells.lines.push_back(reader.line());
    // All records before had the header's number of fields, or this one would not be read.
    const auto found = cells.fields.size() - (cells.lines.size() - 1) * cells.width;
    if (found != cells.width) {
      fail(reader.line(), fmt::format("{}{}, the header has {}", found,
                                      found == 1 ? " field" : " fields", cells.width));
    }
  }
  if (cells.lines.empty()) {
    throw Error("has a header line but no rows");
  }
  CsvTable table{cells.lines.size(), {}};
  for (std::size_t index = 0; index < header.size(); ++index) {
    CsvColumn column;
    column.name = header[index];
    read_numbers(column, cells, index);
    if (column.numbers.empty()) {
      read_texts(column, cells, index);
    }
    table.columns.push_back(std::move(column));
  }
  return table;
}

}  // namespace ddp
