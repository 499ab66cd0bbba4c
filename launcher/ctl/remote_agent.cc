#include "launcher/ctl/remote_agent.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "launcher/ctl/ctl_exit.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/file_text.h"
#include "rendezvous/protocol/frame.h"

namespace ddprun {
namespace {

constexpr const char* kTokenVariable = "DDPRUN_JOB_TOKEN";

/// The words of one exchange. Each part has a known size, and nothing is read beyond it: the first
/// byte after the exchange belongs to the answer in HTTP. It blocks, where control/token_exchange
/// has a loop: a person waits for one answer.
class Exchange {
 public:
  Exchange(const Fd& socket, net::Deadline deadline) : socket_(socket), deadline_(deadline) {}

  /// A part is smaller than any socket's buffer, and the socket does not block: so a part that does
  /// not fit at once has failed.
  void say(const std::string& bytes) {
    if (::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(bytes.size())) {
      ended_ = true;
    }
  }

  /// Shorter than `size`: the other side has ended the connection, or the deadline has passed.
  std::string read(std::size_t size) {
    std::string bytes(size, '\0');
    std::size_t got = 0;
    while (got < size && !ended_ && !late_) {
      if (!net::wait_ready(socket_.get(), POLLIN, deadline_)) {
        late_ = true;
        break;
      }
      const ssize_t n = ::recv(socket_.get(), bytes.data() + got, size - got, 0);
      got += n > 0 ? static_cast<std::size_t>(n) : 0;
      ended_ = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    }
    bytes.resize(got);
    return bytes;
  }
  [[nodiscard]] bool late() const { return late_; }

 private:
  const Fd& socket_;
  net::Deadline deadline_;
  bool ended_ = false;
  bool late_ = false;
};

/// The first address that takes a connection; names may have several.
std::variant<Fd, CtlFailure> connect_to(const Endpoint& at, net::Deadline deadline) {
  const auto addresses = net::resolve(at.host, at.port);
  if (!addresses) {
    return CtlFailure{addresses.error(), kCtlNoAgent};
  }
  Fd socket;
  int failed = ETIMEDOUT;
  for (const net::Address& address : *addresses) {
    failed = net::try_connect(address, deadline, socket);
    if (failed == 0) {
      return socket;
    }
  }
  return CtlFailure{
      Error{"no agent can be reached there: " + std::generic_category().message(failed),
            "--at " + to_text(at), "name the job's rendezvous endpoint"},
      failed == ETIMEDOUT ? kCtlNoAnswer : kCtlNoAgent};
}

/// Why the exchange did not go on, from what came in place of the agent's part. An agent that
/// breaks it off answers with its plain preamble and Rejected. At which part it does so says why:
/// before the proof it has no token, after the proof the token is another one.
CtlFailure broken_off(const RemoteAgent& agent, const Exchange& exchange, const std::string& came,
                      bool proved) {
  const std::string where = "--at " + to_text(agent.at);
  if (exchange.late()) {
    return {Error{"it does not answer", where, "see whether an agent of the job listens there"},
            kCtlNoAnswer};
  }
  const PreambleCheck check = check_preamble(came);
  const bool plain = check.verdict == PreambleVerdict::good;
  if (plain && proved) {
    const TokenRefusal wrong = wrong_token_given();
    return {Error{"the agent refuses: " + wrong.why, where, "give the job's own token"},
            kCtlFailed};
  }
  if (plain) {
    return {Error{"the job there has no token, so it serves no other machine", where,
                  "run ddpctl on a node of it, or read its --metrics-port"},
            kCtlFailed};
  }
  if (check.verdict == PreambleVerdict::other_version) {
    const auto theirs = static_cast<std::uint16_t>(check.version & ~kTokenVersionBit);
    return {
        Error{versions_clause("it", theirs, "this ddpctl"), where, "use the ddpctl of its version"},
        kCtlFailed};
  }
  return {Error{came.empty() ? "it ended the connection" : "what listens there is no ddprun agent",
                where, "name the job's rendezvous endpoint"},
          kCtlFailed};
}

/// A listener that goes on with the proof says so by the token's version, before each of its parts.
bool is_of_proof(const std::string& part) {
  return check_preamble(part).version == kTokenVersion;
}

}  // namespace

/// The file goes before the variable, as for an agent. A token that cannot be right is told before
/// anything is connected to.
Result<RemoteAgent> remote_agent(const Endpoint& at, const std::optional<std::string>& token_file) {
  const char* const variable = std::getenv(kTokenVariable);
  if (!token_file && variable == nullptr) {
    return Error{"another machine's agent asks for the job's token", "--at " + to_text(at),
                 "give --job-token-file FILE or DDPRUN_JOB_TOKEN; a job without a token is looked "
                 "after on its own nodes"};
  }
  const std::string where = token_file ? "--job-token-file '" + *token_file + "'" : kTokenVariable;
  const auto text = token_file ? read_named_file(*token_file) : std::string(variable);
  if (!text) {
    return Error{"there is no file that can be read for the job's token", where,
                 "name the file that the job's agents have"};
  }
  auto token = JobToken::from(*text, where);
  if (!token) {
    return token.error();
  }
  return RemoteAgent{at, std::move(*token)};
}

/// The order of job_token.h: this side proves the token first. It says nothing of what it wants
/// before the other side has proved it, too.
std::variant<Fd, CtlFailure> connect_to_remote(const RemoteAgent& agent, net::Deadline deadline) {
  auto connected = connect_to(agent.at, deadline);
  if (auto* failure = std::get_if<CtlFailure>(&connected)) {
    return std::move(*failure);
  }
  Fd& socket = std::get<Fd>(connected);
  // As this side sees it: an address translation in between shows the agent another place.
  const net::Address end = net::far_end(socket.get());
  const std::string place = token_place(end.host(), end.port());
  Exchange exchange(socket, deadline);
  const std::string own = random_nonce();
  exchange.say(preamble(kTokenVersion) + own);
  std::string came = exchange.read(kPreambleBytes);
  if (!is_of_proof(came)) {
    return broken_off(agent, exchange, came, false);
  }
  // Their random bytes, so that this proof is worth nothing on another connection.
  const std::string theirs = exchange.read(kTokenNonceBytes);
  if (theirs.size() < kTokenNonceBytes) {
    return broken_off(agent, exchange, "", false);
  }
  const JobToken::Facts facts{own, theirs, place};
  exchange.say(agent.token.proof(JobToken::Side::connects, facts));
  came = exchange.read(kPreambleBytes);
  if (!is_of_proof(came)) {
    return broken_off(agent, exchange, came, true);
  }
  came = exchange.read(kTokenProofBytes);
  if (!agent.token.is_proof(came, JobToken::Side::accepts, facts)) {
    return CtlFailure{Error{"what listens there does not have the job's token",
                            "--at " + to_text(agent.at), "name the job's rendezvous endpoint"},
                      kCtlFailed};
  }
  DDP_CHECK(static_cast<bool>(socket), "a connection goes on with its socket");
  return std::move(socket);
}

}  // namespace ddprun
