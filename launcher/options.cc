#include "launcher/options.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "launcher/exit_status.h"
#include "launcher/list_options.h"
#include "launcher/option_table.h"
#include "launcher/python_numbers.h"
#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

// Job scripts rely on argparse: unique prefixes, letters that are run together, an end at the first
// positional. No C++ library reads words that way, so this file does, rule by rule.

const OptionRow* row_of_letter(char letter) {
  // A row without a letter has 0, which is no character of a word.
  DDP_CHECK(letter != 0, "a character of a word is not the 0 at its end");
  for (const OptionRow& row : option_rows()) {
    if (row.letter == letter) {
      return &row;
    }
  }
  return nullptr;
}

/// torchrun declares each long option with dashes and with underscores. Here dashes are the name.
std::string dashed(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

/// All rows that `name`, without its two dashes, may mean: the one of that very name; else those
/// that begin with it, torchrun's own before ours. argparse takes each unique prefix, so an option
/// of ours must not make a prefix ambiguous that works in torchrun.
std::vector<const OptionRow*> candidates(std::string_view spelled) {
  const std::string name = dashed(spelled);
  std::vector<const OptionRow*> torchruns;
  std::vector<const OptionRow*> ours;
  for (const OptionRow& row : option_rows()) {
    if (row.name == name) {
      return {&row};
    }
    if (row.name.starts_with(name)) {
      (row.ours ? ours : torchruns).push_back(&row);
    }
  }
  return torchruns.empty() ? ours : torchruns;
}

/// -1 and -.5 are values, never options. argparse's expression is ^-\d+$|^-\d*\.\d+$, and it holds
/// as long as no option looks like a number.
bool is_negative_number(std::string_view word) {
  DDP_CHECK(word.size() >= 2 && word.front() == '-',
            "only a word that begins with a dash is asked");
  word.remove_prefix(1);
  const auto dot = word.find('.');
  const std::string_view whole = word.substr(0, dot);
  const std::string_view fraction =
      dot == std::string_view::npos ? std::string_view("0") : word.substr(dot + 1);
  const auto digits = [](std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  return digits(whole) && digits(fraction) && !fraction.empty() &&
         (!whole.empty() || dot != std::string_view::npos);
}

/// Whether argparse takes this word for an option, known or not, in the order of its own rules
/// (_parse_optional). The caller treats "--" first.
bool is_option(std::string_view word) {
  DDP_CHECK(word != "--", "the end of the options is not an option");
  if (word.size() < 2 || word[0] != '-') {
    return false;
  }
  if (word[1] == '-') {
    const std::string_view name = word.substr(2, word.find('=') - 2);
    if (!candidates(name).empty()) {
      return true;
    }
  } else if (row_of_letter(word[1]) != nullptr) {
    return true;
  } else if (is_negative_number(word)) {
    return false;
  }
  // argparse takes a word with a blank for a text, even if it begins with a dash.
  return word.find(' ') == std::string_view::npos;
}

constexpr std::size_t kOptionLengthMax = 64;  ///< longer words are not compared for a suggestion
constexpr std::size_t kTyposMax = 2;

/// Single-character edits from one text to the other (Levenshtein), with one row of the table kept.
std::size_t distance(std::string_view a, std::string_view b) {
  // The table has a.size() times b.size() cells, and the user chooses `a`.
  DDP_CHECK(a.size() <= kOptionLengthMax, "only short words are compared");
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  DDP_CHECK(row[b.size()] <= std::max(a.size(), b.size()), "each character is edited at most once");
  return row[b.size()];
}

/// A misspelt option is an error, as in argparse. Beyond argparse, the message names the nearest
/// option: a job in a queue for hours should not fail twice by one typo.
UsageError unknown_option(std::string_view word) {
  DDP_CHECK(word.starts_with('-'), "another word is the program, not an unknown option");
  const std::string shown(word.substr(0, word.find('=')));
  const std::string name =
      dashed(shown.substr(std::min(shown.find_first_not_of('-'), shown.size())));
  const OptionRow* nearest = nullptr;
  std::size_t nearest_distance = kTyposMax + 1;
  for (const OptionRow& row : option_rows()) {
    // Two typos in a name of three letters is another name.
    if (name.size() > 3 && name.size() <= kOptionLengthMax &&
        distance(name, row.name) < nearest_distance) {
      nearest = &row;
      nearest_distance = distance(name, row.name);
    }
  }
  return {Error{"unknown option", shown,
                nearest != nullptr ? "did you mean --" + std::string(nearest->name) + "?"
                                   : "ddprun --help lists all"},
          kExitUsage};
}

UsageError usage_error(std::string what, std::string where, std::string todo) {
  return {Error{std::move(what), std::move(where), std::move(todo)}, kExitUsage};
}

bool is_choice(std::string_view choices, std::string_view text) {
  DDP_CHECK(!choices.empty(), "a row without choices takes every text");
  while (!choices.empty()) {
    const auto bar = std::min(choices.find('|'), choices.size());
    if (choices.substr(0, bar) == text) {
      return true;
    }
    choices.remove_prefix(std::min(bar + 1, choices.size()));
  }
  return false;
}

/// "--event-log FILE"
std::string word_for(const OptionRow& row) {
  return "--" + std::string(row.name) + " " + std::string(row.value_name);
}

/// From a variable of a shell that is not set, as in --on "$RULES". A mistake of value, not of
/// spelling: so the exit code is that of --nnodes 4:2.
std::optional<UsageError> names_nothing(const OptionRow& row, std::string_view text,
                                        const std::string& where) {
  const bool is_list = row.value_name.ends_with(",...");
  if (!row.must_name || !(is_list ? split_commas(text).empty() : text.empty())) {
    return std::nullopt;
  }
  return UsageError{
      Error{in_quotes(text) + " names nothing", where, "leave it out, or write " + word_for(row)},
      kExitFailure};
}

/// Puts the text into the row's field. `where` names the option or the variable for messages.
std::optional<UsageError> assign(Options& options, const OptionRow& row, std::string_view text,
                                 const std::string& where) {
  DDP_CHECK(!where.empty(), "every value comes from an option or a variable");
  if (!row.choices.empty() && !is_choice(row.choices, text)) {
    std::string choices(row.choices);
    for (auto bar = choices.find('|'); bar != std::string::npos; bar = choices.find('|', bar)) {
      choices.replace(bar, 1, ", ");
    }
    return usage_error("'" + std::string(text) + "' is not a choice", where,
                       "give one of " + choices);
  }
  // The type of the field is the type of the option, so one visitor reads all of them.
  const auto fill = [&](auto field) -> std::optional<UsageError> {
    using Value = std::remove_cvref_t<decltype(options.*field)>;
    if constexpr (std::is_same_v<Value, int> || std::is_same_v<Value, std::optional<int>>) {
      // A time has no largest number: each ends at kTimeMax.
      const auto number = row.value_name == "SECONDS" ? read_capped_int(text) : read_int(text);
      if (!number && is_too_large(text)) {
        return usage_error(
            "'" + std::string(text) + "' is too large", where,
            "give a number up to " + std::to_string(std::numeric_limits<int>::max()));
      }
      if (!number) {
        return usage_error("'" + std::string(text) + "' is not a whole number", where,
                           "give a number such as 3");
      }
      options.*field = *number;
    } else if constexpr (std::is_same_v<Value, double> ||
                         std::is_same_v<Value, std::optional<double>>) {
      const auto number = read_float(text);
      if (!number) {
        return usage_error("'" + std::string(text) + "' is not a number", where,
                           "give a number such as 0.5");
      }
      options.*field = *number;
    } else if constexpr (std::is_same_v<Value, bool>) {
      const auto number = read_int(text);
      if (!number) {
        // Only a variable can be wrong here. torchrun's check_env calls int() outside of argparse,
        // so torchrun ends with an uncaught ValueError and exit code 1, not 2.
        return UsageError{
            Error{"'" + std::string(text) + "' does not say on or off", where, "set it to 1 or 0"},
            kExitFailure};
      }
      options.*field = *number != 0;
    } else {
      options.*field = std::string(text);
    }
    return std::nullopt;
  };
  return std::visit(fill, row.field);
}

/// One pass over the words, then the variables of what was not seen.
class Parser {
 public:
  Parser(std::span<const char* const> words, const Environment& environment)
      : words_(words), environment_(environment) {}

  /// Options end at the first word that is none, as with argparse.REMAINDER: all words from there
  /// on are the program's, options that look like ours included.
  std::variant<Options, UsageError> parse() {
    while (next_ < words_.size() && !only_shows_text(options_)) {
      const std::string_view word = words_[next_];
      if (word == "--") {
        ++next_;
        break;
      }
      if (!is_option(word)) {
        break;
      }
      ++next_;
      if (auto error = word[1] == '-' ? long_option(word) : letters(word)) {
        return *std::move(error);
      }
    }
    // argparse's actions for these exit at once: a mistake behind them is not reported.
    if (only_shows_text(options_)) {
      return std::move(options_);
    }
    DDP_CHECK(next_ <= words_.size(), "no option takes a value that is not there");
    options_.program.assign(words_.begin() + static_cast<std::ptrdiff_t>(next_), words_.end());
    if (auto error = variables()) {
      return *std::move(error);
    }
    if (options_.program.empty() && !options_.witness) {
      return usage_error("there is no program to run", "",
                         "write ddprun [options] PROGRAM [arguments], or see ddprun --help");
    }
    return std::move(options_);
  }

 private:
  /// The message about a value names the whole option, even if the user wrote a prefix of it.
  std::optional<UsageError> long_option(std::string_view word) {
    DDP_CHECK(word.starts_with("--"), "a long option begins with two dashes");
    const auto equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const auto rows = candidates(name.substr(2));
    if (rows.empty()) {
      return unknown_option(word);
    }
    if (rows.size() > 1) {
      std::string names;
      for (const OptionRow* row : rows) {
        names += (names.empty() ? "--" : ", --") + std::string(row->name);
      }
      return usage_error("this could mean " + names, std::string(name), "write more of the name");
    }
    std::optional<std::string_view> value;
    if (equals != std::string_view::npos) {
      value = word.substr(equals + 1);
    }
    return one_option(*rows.front(), "--" + std::string(rows.front()->name), value);
  }

  /// "-m", "-r3", "-r=3", "-mr3": flags may be run together, the last one may have a value.
  std::optional<UsageError> letters(std::string_view word) {
    DDP_CHECK(word.size() > 1 && word[0] == '-' && word[1] != '-', "a letter follows one dash");
    for (std::size_t at = 1; at < word.size(); ++at) {
      const OptionRow* row = row_of_letter(word[at]);
      if (row == nullptr) {
        return at == 1 ? unknown_option(word)
                       : usage_error("there is no option -" + std::string(1, word[at]),
                                     std::string(word), "ddprun --help lists all");
      }
      const std::string shown = std::string("-") + word[at];
      std::string_view rest = word.substr(at + 1);
      if (rest.empty()) {
        return one_option(*row, shown, std::nullopt);
      }
      if (!is_flag(*row) || rest.front() == '=') {
        rest.remove_prefix(rest.front() == '=' ? 1 : 0);
        return one_option(*row, shown, rest);
      }
      if (auto error = one_option(*row, shown, std::nullopt)) {
        return error;
      }
      if (options_.help) {
        break;
      }
    }
    return std::nullopt;
  }

  std::optional<UsageError> one_option(const OptionRow& row, const std::string& shown,
                                       std::optional<std::string_view> value) {
    const auto place = static_cast<std::size_t>(&row - option_rows().data());
    DDP_CHECK(place < seen_.size(), "the row is one of the table's");
    const bool again = seen_[place];
    seen_[place] = true;
    if (!again) {
      options_.given.emplace_back(row.name);
    }
    if (is_flag(row)) {
      if (value) {
        return usage_error("the option takes no value, but was given '" + std::string(*value) + "'",
                           shown, "leave the value out");
      }
      return assign(options_, row, "1", shown);
    }
    DDP_CHECK(!row.value_name.empty(), "an option with a value has a name for it in the help");
    if (!value) {
      // argparse never takes what looks like an option for a value, even where only a value fits.
      const bool at_end = next_ == words_.size() || std::string_view(words_[next_]) == "--";
      if (at_end || is_option(words_[next_])) {
        return usage_error(
            "the value is missing" +
                (at_end ? "" : ", for '" + std::string(words_[next_]) + "' looks like an option"),
            shown, "write " + shown + " " + std::string(row.value_name));
      }
      value = words_[next_++];
    }
    // Before it is added to others, which name something.
    if (auto error = names_nothing(row, *value, shown)) {
      return error;
    }
    // The last of several counts, as in argparse; but a list that was dropped for a later one would
    // be rules that its user relies on.
    if (again && row.adds_up) {
      const auto* const field = std::get_if<std::string Options::*>(&row.field);
      DDP_CHECK(field != nullptr, "what adds up is a text");
      return assign(options_, row, options_.*(*field) + "," + std::string(*value), shown);
    }
    return assign(options_, row, *value, shown);
  }

  /// The command line wins over the environment. Where argparse has a text for a default, as from a
  /// variable, it converts that as a value: a bad number there is a usage error with exit code 2.
  std::optional<UsageError> variables() {
    DDP_CHECK(seen_.size() == option_rows().size(), "each option has a mark");
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const OptionRow& row = option_rows()[i];
      if (!row.has_variable || seen_[i]) {
        continue;
      }
      const std::string name = variable_name(row.name);
      if (const char* text = environment_(name.c_str())) {
        if (auto error = names_nothing(row, text, name)) {
          return error;
        }
        if (auto error = assign(options_, row, text, name)) {
          return error;
        }
        options_.from_environment.emplace_back(row.name);
        options_.given.emplace_back(row.name);
      }
    }
    return std::nullopt;
  }

  std::span<const char* const> words_;
  const Environment& environment_;
  std::size_t next_ = 0;
  Options options_;
  std::vector<bool> seen_ = std::vector<bool>(option_rows().size());
};

}  // namespace

bool only_shows_text(const Options& options) {
  return options.help || options.version || !options.print_completion.empty();
}

std::string origin(const Options& options, std::string_view name) {
  DDP_CHECK(std::any_of(option_rows().begin(), option_rows().end(),
                        [name](const OptionRow& row) { return row.name == name; }),
            "a message names an option of the table");
  const auto& given = options.from_environment;
  if (std::find(given.begin(), given.end(), name) != given.end()) {
    return variable_name(name);
  }
  for (const auto& [option, variables] : options.from_scheduler) {
    if (option == name) {
      return variables;
    }
  }
  return "--" + std::string(name);
}

bool is_on_command_line(const Options& options, std::string_view name) {
  const auto& given = options.given;
  return std::find(given.begin(), given.end(), name) != given.end() &&
         origin(options, name).starts_with("--");
}

std::variant<Options, UsageError> parse_command_line(std::span<const char* const> words,
                                                     const Environment& environment) {
  return Parser(words, environment).parse();
}

}  // namespace ddprun
