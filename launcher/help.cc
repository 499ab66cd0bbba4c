// CLI11 lays the text out, and does no more: its parser is not argparse (no unique prefixes, no
// end at the first positional, "010" read as eight), so options.cc reads the words itself. Its
// application is built for --help only, because a start without it takes less time.
#include "launcher/help.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <array>
#include <memory>
#include <string_view>

#include "launcher/option_table.h"

namespace ddprun {
namespace {

// 100 columns together, which a test holds. CLI11 breaks no lines of a description by itself.
constexpr std::size_t kNameColumns = 38;
constexpr std::size_t kTextColumns = 62;

constexpr char kDescription[] =
    "Starts a distributed training job on this node, together with the other nodes of the job, "
    "and\n"
    "keeps it alive through failures. Takes torchrun's command line.\n";

constexpr char kFooter[] =
    "PROGRAM is looked up on PATH, then beside ddprun; a name that ends in .py runs under Python.\n"
    "Names may be shortened (--nproc 2) and written with underscores (--nproc_per_node). What is "
    "not\ngiven is read from the environment: --max-restarts from PET_MAX_RESTARTS, and so on.\n\n"
    "One node, a worker for each GPU:   ddprun --nproc-per-node gpu train.py\n"
    "Two to four nodes, on each:        ddprun --nnodes 2:4 --rdzv-endpoint n1:29400 --rdzv-id 17 "
    "\\\n"
    "                                       --max-restarts 3 --nproc-per-node 8 train.py";

class Formatter : public CLI::Formatter {
 public:
  Formatter() { column_width(kNameColumns); }

  std::string make_usage(const CLI::App*, std::string name) const override {
    return "Usage: " + name + " [options] PROGRAM [arguments of the program]\n\n";
  }

  /// CLI11 begins a group with an empty line and puts another one between two groups.
  std::string make_group(std::string title, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    return CLI::Formatter::make_group(std::move(title), is_positional, std::move(options))
        .substr(1);
  }

  /// "-r, --redirects MAP", long names below each other.
  std::string make_option(const CLI::Option* option, bool) const override {
    const auto& letters = option->get_snames();
    std::string name = letters.empty() ? "    " : "-" + letters.front() + ", ";
    name += "--" + option->get_lnames().front();
    if (!option->get_option_text().empty()) {
      name += " " + option->get_option_text();
    }
    std::stringstream out;
    CLI::detail::format_help(out, name, wrapped(option->get_description(), kTextColumns),
                             get_column_width());
    return out.str();
  }
};

}  // namespace

const char* group_title(OptionGroup group) {
  switch (group) {
    case OptionGroup::job:
      return "The job";
    case OptionGroup::rendezvous:
      return "Where the nodes meet";
    case OptionGroup::hosts:
      return "Hosts by ssh";
    case OptionGroup::program:
      return "What to run";
    case OptionGroup::output:
      return "The workers' output";
    case OptionGroup::ending:
      return "Ending the job";
    case OptionGroup::other:
      return "Help";
    case OptionGroup::accepted:
      return "Accepted for compatibility with torchrun";
  }
  return "";
}

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string lines;
  std::size_t width = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (width > 0 && width + 1 + word.size() > columns) {
      lines += '\n';
      width = 0;
    } else if (width > 0) {
      lines += ' ';
      ++width;
    }
    lines += word;
    width += word.size();
  }
  return lines;
}

std::string help_text() {
  CLI::App app{kDescription, "ddprun"};
  app.set_help_flag();  // a row of our own table says it
  app.formatter(std::make_shared<Formatter>());
  app.footer(kFooter);
  // Each row is added as a flag, whatever its type: nothing is parsed, and the formatter above
  // shows names and texts only.
  for (const OptionRow& row : option_rows()) {
    std::string names = row.letter != 0 ? std::string("-") + row.letter + "," : std::string();
    names += "--" + std::string(row.name);
    const std::string standard = default_text(row);
    const std::string help =
        std::string(row.help) + (standard.empty() ? std::string() : " [" + standard + "]");
    // `help` is const, because add_flag() takes a text that it may change for the flag's variable.
    app.add_flag(names, help)
        ->group(group_title(row.group))
        ->option_text(std::string(row.value_name));
  }
  return app.help();
}

}  // namespace ddprun
