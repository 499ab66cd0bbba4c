// Any bytes as a CSV file: a table whose columns are as long as it says, or a sentence.
#include <string>

#include "ddp/error.h"
#include "tests/fuzz/input.h"
#include "trainer/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using ddprun::fuzz::require;
  ddprun::fuzz::Input input(data, size);
  try {
    const ddp::CsvTable table = ddp::parse_csv(input.rest());
    require(table.row_count > 0 && !table.columns.empty(), "a table has rows and columns");
    for (const auto& column : table.columns) {
      const std::size_t rows = column.numeric() ? column.numbers.size() : column.codes.size();
      require(rows == table.row_count, "every row has every column");
      for (const auto code : column.codes) {
        require(code < column.categories.size(), "every code names a category");
      }
    }
  } catch (const ddp::Error& error) {
    require(std::string(error.what()).size() > 10, "a refusal has a reason");
  }
  return 0;
}
