#include "launcher/option_table.h"

#include <type_traits>
#include <vector>

#include "launcher/option_rows.h"
#include "rendezvous/base/check.h"

namespace ddprun {

/// One table: callers number its rows.
std::span<const OptionRow> option_rows() {
  static const std::vector<OptionRow> kRows = [] {
    const auto job = job_option_rows();
    const auto node = node_option_rows();
    std::vector<OptionRow> rows(job.begin(), job.end());
    rows.insert(rows.end(), node.begin(), node.end());
    DDP_CHECK(rows.size() == job.size() + node.size(), "no part is missing");
    return rows;
  }();
  return kRows;
}

bool is_flag(const OptionRow& row) {
  return std::holds_alternative<bool Options::*>(row.field);
}

std::string variable_name(std::string_view name) {
  // As torchrun's `env` action: PET_ and the name in capitals, with underscores. Names of options
  // have nothing but small ASCII letters and dashes in them.
  std::string variable = "PET_";
  for (const char c : name) {
    variable += c == '-' ? '_' : static_cast<char>(c - 'a' + 'A');
  }
  return variable;
}

std::string default_text(const OptionRow& row) {
  // Options is the one place with default values, so the help cannot differ from what is done.
  static const Options kDefaults;
  return std::visit(
      [](auto field) -> std::string {
        const auto& value = kDefaults.*field;
        using Value = std::remove_cvref_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string>) {
          return value;
        } else if constexpr (std::is_same_v<Value, int>) {
          return std::to_string(value);
        } else if constexpr (std::is_same_v<Value, double>) {
          // Six decimals: the zeros at the end go. (No default is a whole number of this type.)
          std::string text = std::to_string(value);
          return text.substr(0, text.find_last_not_of('0') + 1);
        } else {
          return {};
        }
      },
      row.field);
}

}  // namespace ddprun
