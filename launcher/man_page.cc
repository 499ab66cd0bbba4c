#include "launcher/man_page.h"

#include "launcher/exit_status.h"
#include "launcher/help.h"
#include "launcher/option_table.h"
#include "rendezvous/base/check.h"
#include "rendezvous/contract/environment.h"

namespace ddprun {
namespace {

/// Of a line of source: mandoc(1) calls longer ones bad style.
constexpr std::size_t kSourceColumns = 78;

/// What a section lists, and what it says of that; plain text both.
struct Term {
  std::string name;
  std::string text;
};

/// Where the source breaks a line, the page has a blank: it is filled to the reader's width.
std::string paragraph(std::string_view text) {
  return wrapped(troff_text(text), kSourceColumns) + "\n";
}

/// `tag` is troff already.
std::string tagged(const std::string& tag, std::string_view text) {
  DDP_CHECK(!tag.empty() && tag.find('\n') == std::string::npos, "a tag is one line");
  return ".TP\n" + tag + "\n" + paragraph(text);
}

/// A section that is a list: each name in bold, and its text indented below.
std::string terms(std::string_view title, std::initializer_list<Term> list) {
  std::string section = ".SH " + std::string(title) + "\n";
  for (const Term& term : list) {
    section += tagged("\\fB" + troff_text(term.name) + "\\fR", term.text);
  }
  return section;
}

/// "-r, --redirects MAP"
std::string tag_of(const OptionRow& row) {
  std::string tag;
  if (row.letter != 0) {
    tag = std::string("\\fB\\-") + row.letter + "\\fR, ";
  }
  tag += "\\fB\\-\\-" + troff_text(row.name) + "\\fR";
  if (!is_flag(row)) {
    DDP_CHECK(!row.value_name.empty(), "what takes a value has a name for it");
    tag += " \\fI" + troff_text(row.value_name) + "\\fR";
  }
  return tag;
}

/// The table's rows are sorted by group, so a title comes where the group changes.
std::string options_section() {
  std::string section =
      ".SH OPTIONS\n" + paragraph(
                            "A name may be shortened while it is unique, and written with "
                            "underscores. A value follows in the next word, or behind a =.");
  const char* title = nullptr;
  for (const OptionRow& row : option_rows()) {
    const char* const own = group_title(row.group);
    if (title == nullptr || std::string_view(title) != own) {
      title = own;
      section += ".SS " + troff_text(own) + "\n";
    }
    std::string text(row.help);
    if (const std::string standard = default_text(row); !standard.empty()) {
      text += " [" + standard + "]";
    }
    section += tagged(tag_of(row), text);
  }
  return section;
}

std::string environment_section() {
  return terms(
      "ENVIRONMENT",
      {{"PET_*",
        "The value of an option that is not given: PET_MAX_RESTARTS for --max-restarts, and so on. "
        "A flag takes a whole number, not zero for on."},
       {env::kPythonExec,
        "The Python that runs a program; else that of the virtual environment that "
        "ddprun is installed in; else the first python3 on PATH."},
       {env::kLogLevel, "How much ddprun tells: DEBUG, INFO, WARNING (as without it), ERROR."},
       {env::kErrorFile, "Where ddprun writes the root cause of a failure, as JSON."},
       {env::kLogLinePrefixTemplate, "What stands before each line of --tee."},
       {env::kShutdownTimeout, "As --shutdown-timeout, in seconds."},
       {env::kEnableFileTimer, "1: workers may set timers, and one that expires ends its worker."},
       {env::kCudaVisibleDevices, "The GPUs that --nproc-per-node gpu counts."},
       {std::string(env::kAwsMetadataEndpoint) + ", " + env::kGceMetadataHost + ", " +
            env::kAzureMetadataHost,
        "Where --preempt-notice finds a cloud's metadata service, if not at 169.254.169.254: for "
        "AWS a URL that begins with http://, else HOST or HOST:PORT."},
       {std::string(env::kNotifySocket) + ", " + env::kWatchdogUsec + ", " + env::kWatchdogPid,
        "Set by a service manager (sd_notify(3)): ddprun tells it when the node has joined, how "
        "far the job is, and that it is alive. Workers do not get them."}});
}

std::string exit_status_section() {
  const auto code = [](int number) { return std::to_string(number); };
  return terms(
      "EXIT STATUS",
      {{code(kExitSuccess),
        "Every worker of the job ended with 0, or this node left it in "
        "order."},
       {code(kExitFailure),
        "The job failed, was stopped by a signal, or could not be "
        "started; a sentence on stderr says which."},
       {code(kExitUsage), "The command line, or a scheduler's variable, cannot be read."},
       {code(kExitResume), "The job was preempted: the same command goes on from where it is."},
       {code(kExitDisagreed),
        "With --require-same-env: the nodes differ, and no worker was started."},
       {code(exit_code_of_signal(0)) + "+N", "The agent itself was killed by signal N."}});
}

std::string examples_section() {
  const auto example = [](std::string_view what, std::string_view command) {
    return paragraph(what) + ".PP\n.RS 4\n.EX\n" + troff_text(command) + "\n.EE\n.RE\n";
  };
  return ".SH EXAMPLES\n" +
         example("One node, a worker for each GPU:", "ddprun --nproc-per-node gpu train.py") +
         ".PP\n" +
         example("Two to four nodes, the same command on each:",
                 "ddprun --nnodes 2:4 --rdzv-endpoint n1:29400 --rdzv-id 17 --max-restarts 3 \\\n"
                 "    --nproc-per-node 8 train.py") +
         ".PP\n" +
         example("As a service, with its command line in /etc/ddprun/night.conf:",
                 "systemctl start ddprun@night");
}

}  // namespace

std::string troff_text(std::string_view text) {
  std::string result;
  bool begins = true;
  for (const char c : text) {
    // At the beginning of a line these two would make it a request.
    if (begins && (c == '.' || c == '\'')) {
      result += "\\&";
    }
    begins = c == '\n' || c == ' ';  // a line may be broken at any blank
    switch (c) {
      case '\\':
        result += "\\e";
        break;
      // Bare, it is a hyphen: a command that is copied from the page would not run.
      case '-':
        result += "\\-";
        break;
      case '\'':
        result += "\\(aq";
        break;
      default:
        result += c;
    }
  }
  DDP_CHECK(result.size() >= text.size(), "nothing of the text is lost");
  return result;
}

std::string man_page(std::string_view version, std::string_view date) {
  DDP_CHECK(!version.empty() && version.find('"') == std::string_view::npos,
            "a version is numbers and dots");
  DDP_CHECK(date.find('"') == std::string_view::npos, "a date has no quotes");
  return ".\\\" Made from ddprun's table of options: launcher/man_page.cc.\n.TH DDPRUN 1 \"" +
         std::string(date) + "\" \"ddprun " + std::string(version) + "\" \"User Commands\"\n" +
         ".SH NAME\nddprun \\- native elastic launcher for distributed training\n"
         ".SH SYNOPSIS\n.B ddprun\n[\\fIoptions\\fR] \\fIPROGRAM\\fR [\\fIarguments of the "
         "program\\fR]\n.br\n.B ddprun \\-\\-witness \\-\\-rdzv\\-endpoint\n\\fIHOST\\fR\n"
         ".SH DESCRIPTION\n" +
         paragraph(
             "Starts a distributed training job on this node, together with the other nodes "
             "of the job, and keeps it alive through failures: when a worker or a node is "
             "lost, all workers of all nodes stop, and the next attempt starts at once. "
             "Takes torchrun's command line, and gives workers torchrun's environment.") +
         ".PP\n" +
         paragraph(
             "PROGRAM is looked up on PATH, then beside ddprun; a name that ends in .py runs "
             "under Python. All words after it are the program's own.") +
         options_section() + environment_section() + exit_status_section() +
         terms("FILES", {{"/etc/ddprun/NAME.conf",
                          "The command line and the variables of the service ddprun@NAME."},
                         {"$XDG_RUNTIME_DIR/ddprun, /run/user/UID/ddprun or /tmp/ddprun-UID",
                          "The sockets by which ddpctl of user UID finds running agents."},
                         {"$TMPDIR/ddprun_*",
                          "The workers' files (error files, logs) without --log-dir."}}) +
         examples_section() +
         ".SH SEE ALSO\n.BR ddpctl (1),\n.BR train (1),\n.BR systemd.service (5),\n.BR sd_notify "
         "(3)\n";
}

}  // namespace ddprun
