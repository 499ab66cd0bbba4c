#include "agent/notice/notice_watch.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <set>
#include <utility>
#include <vector>

#include "agent/notice/metadata_service.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/text.h"
#include "rendezvous/http/http_client.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::seconds;

/// Not inotify(7): it sees neither what another machine writes into a shared file system, nor a
/// folder that does not exist yet. A look costs microseconds.
constexpr seconds kFilePause{1};

/// A service that does not answer is asked again after 1, 2, 4 ... 60 seconds: soon where a machine
/// just starts, and rarely where there is no such cloud.
constexpr seconds kRetryFirst{1};
constexpr seconds kRetryMax{60};
constexpr int kFailuresUntilTold = 3;

/// A service that makes up one remark after the other fills no log.
constexpr std::size_t kRemarksMax = 16;

/// Empty where there is none, or the file is none of text: a FIFO would let us wait.
std::string first_line_of(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return {};
  }
  std::array<char, 512> begin{};
  const ssize_t got = ::read(file.get(), begin.data(), begin.size());
  const std::string_view text(begin.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  return quoted_from(trimmed(text.substr(0, text.find('\n'))));
}

}  // namespace

/// Handlers hold plain pointers to it: it is destroyed after its loop has stopped, as the agent's
/// other parts are, and a handler that never ran is destroyed with the loop.
struct NoticeWatch::Impl {
  /// With one metadata service, or about one of its values.
  struct Conversation {
    Conversation(asio::io_context& io, const NoticeSource& from,
                 std::unique_ptr<MetadataService> the_service)
        : source(from), service(std::move(the_service)), client(io, {from.server}), timer(io) {}

    const NoticeSource source;
    std::unique_ptr<MetadataService> service;
    HttpClient client;
    asio::steady_timer timer;
    int failures = 0;  ///< in a row
  };

  struct WatchedFile {
    WatchedFile(asio::io_context& io, std::string the_path)
        : path(std::move(the_path)), timer(io) {}

    const std::string path;
    asio::steady_timer timer;
    bool is_told = false;  ///< that it cannot be looked at
  };

  Impl(asio::io_context& io, const JobSpec& spec, OnNotice hook, std::shared_ptr<spdlog::logger> l)
      : response(spec.on_notice), on_notice(std::move(hook)), log(std::move(l)), deadline(io) {
    for (const NoticeSource& source : spec.notice_sources) {
      if (source.kind == NoticeKind::file) {
        files.push_back(std::make_unique<WatchedFile>(io, source.path));
        look_later(*files.back(), seconds(0));
      }
      for (auto& service : metadata_services(source.kind)) {
        conversations.push_back(std::make_unique<Conversation>(io, source, std::move(service)));
        ask_later(*conversations.back(), seconds(0));
      }
    }
    if (spec.deadline) {
      after(deadline, *spec.deadline, [this] { on_notice({}); });
    }
  }

  /// A timer that is destroyed, or armed anew, does not fire.
  template <class Then>
  static void after(asio::steady_timer& timer, std::chrono::milliseconds pause, Then then) {
    timer.expires_after(pause);
    timer.async_wait([then = std::move(then)](error_code failed) {
      if (!failed) {
        then();
      }
    });
  }

  /// One at a time: the next is asked when the answer to the one before has been heard.
  void ask_later(Conversation& with, std::chrono::milliseconds pause) {
    after(with.timer, pause, [this, &with] {
      with.client.ask(with.service->next(),
                      [this, &with](const Result<HttpReply>& answer) { hear(with, answer); });
    });
  }

  void hear(Conversation& with, const Result<HttpReply>& answer) {
    // It was under way, a long poll maybe, when another source told of the end.
    if (over) {
      return;
    }
    if (!answer) {
      return failed(with, answer.error());
    }
    with.failures = 0;
    const Heard heard = with.service->hear(*answer);
    if (!heard.complaint.empty() && nonsense.insert(with.source.kind).second) {
      log->warn(
          "--preempt-notice {}: http://{}: {}; it is asked again, and more such answers are "
          "not told",
          to_text(with.source.kind), to_text(with.source.server), heard.complaint);
    }
    if (!heard.remark.empty() && remarks.size() < kRemarksMax &&
        remarks.insert(heard.remark).second) {
      log->warn("{}", heard.remark);
    }
    heard.notice.empty() ? ask_later(with, heard.pause) : announce(heard.notice);
  }

  /// Not at the first: a network that just comes up, or a service that restarts, is no news.
  void failed(Conversation& with, const Error& why) {
    ++with.failures;
    DDP_CHECK(with.failures > 0, "failures in a row are few: they are asked for rarely");
    if (with.failures >= kFailuresUntilTold && silent.insert(with.source.kind).second) {
      log->warn(
          "--preempt-notice {}: {}; this seems to be no machine of that cloud: the job goes "
          "on, and the service is asked again once a minute",
          to_text(with.source.kind), why.sentence());
    }
    // Past sixty seconds the pause stays, so that more doublings say nothing.
    const int doublings = std::min(with.failures - 1, 6);
    ask_later(with, std::min(kRetryFirst * (1 << doublings), kRetryMax));
  }

  void look_later(WatchedFile& file, seconds pause) {
    after(file.timer, pause, [this, &file] { look(file); });
  }

  void look(WatchedFile& file) {
    if (over) {
      return;
    }
    struct stat status {};
    // Of whatever kind: `mkdir` and a link to a file announce as well as `touch` does.
    if (::stat(file.path.c_str(), &status) == 0) {
      const std::string reason = first_line_of(file.path);
      return announce("file " + quoted_from(file.path) + (reason.empty() ? "" : ": " + reason));
    }
    // Its folder may come later, too.
    if (errno != ENOENT && errno != ENOTDIR && !std::exchange(file.is_told, true)) {
      log->warn("--preempt-notice file: {}",
                errno_error(errno, "cannot look for this file", printable(file.path)).sentence());
    }
    look_later(file, kFilePause);
  }

  /// The first notice decides. What others would add changes nothing any more.
  void announce(const std::string& notice) {
    log->warn("{}: {}", notice,
              response == NoticeResponse::save ? "the job saves, and every agent ends with 75"
                                               : "this node leaves the job in order");
    stop_asking();
    on_notice(notice);
  }

  /// Answers that are under way come to nothing. The deadline stays: a node that is to leave may
  /// have to go on as the coordinator.
  void stop_asking() {
    over = true;
    for (const auto& one : conversations) {
      one->timer.cancel();
    }
    for (const auto& one : files) {
      one->timer.cancel();
    }
  }

  const NoticeResponse response;
  NoticeWatch::OnNotice on_notice;
  std::shared_ptr<spdlog::logger> log;
  asio::steady_timer deadline;
  std::vector<std::unique_ptr<Conversation>> conversations;
  std::vector<std::unique_ptr<WatchedFile>> files;
  std::set<NoticeKind> silent;    ///< of these it is told that they do not answer
  std::set<NoticeKind> nonsense;  ///< and of these, that they answer what nobody documents
  std::set<std::string> remarks;  ///< that were told
  bool over = false;
};

NoticeWatch::NoticeWatch(asio::io_context& io, const JobSpec& spec, OnNotice on_notice,
                         std::shared_ptr<spdlog::logger> log) {
  if (spec.deadline || !spec.notice_sources.empty()) {
    impl_ = std::make_unique<Impl>(io, spec, std::move(on_notice), std::move(log));
  }
}

NoticeWatch::~NoticeWatch() = default;

void NoticeWatch::end() {
  if (impl_) {
    impl_->stop_asking();
    impl_->deadline.cancel();
  }
}

}  // namespace ddprun
