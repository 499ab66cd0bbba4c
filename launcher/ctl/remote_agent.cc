#include "launcher/ctl/remote_agent.h"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "launcher/ctl/blocking_channel.h"
#include "launcher/ctl/ctl_exit.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/file_text.h"
#include "rendezvous/control/tls_words.h"
#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

constexpr const char* kTokenVariable = "DDPRUN_JOB_TOKEN";

/// The words of one exchange. Each part has a known size, and what comes behind it stays unread: it
/// belongs to the answer in HTTP.
class Exchange {
 public:
  Exchange(Channel& channel, net::Deadline deadline) : channel_(channel), deadline_(deadline) {}

  void say(const std::string& bytes) { failed_ = send_all(channel_, bytes, deadline_); }

  /// Shorter than `size`: the other side has ended the connection, or the deadline has passed.
  std::string read(std::size_t size) {
    std::string& unread = channel_.unread;
    while (unread.size() < size && failed_ == 0) {
      const std::size_t had = unread.size();
      failed_ = receive_some(channel_, deadline_);
      if (failed_ == 0 && unread.size() == had) {
        failed_ = ECONNRESET;
      }
    }
    std::string bytes = unread.substr(0, size);
    unread.erase(0, bytes.size());
    return bytes;
  }
  [[nodiscard]] bool late() const { return failed_ == ETIMEDOUT; }
  /// Of TLS; empty: that has not failed.
  [[nodiscard]] std::string tls_failure() const {
    return channel_.tls ? channel_.tls->failure() : std::string();
  }

 private:
  Channel& channel_;
  net::Deadline deadline_;
  int failed_ = 0;  ///< errno
};

/// The first address that takes a connection; names may have several.
std::variant<Channel, CtlFailure> connect_to(const Endpoint& at, net::Deadline deadline) {
  const auto addresses = net::resolve(at.host, at.port);
  if (!addresses) {
    return CtlFailure{addresses.error(), kCtlNoAgent};
  }
  Fd socket;
  int failed = ETIMEDOUT;
  for (const net::Address& address : *addresses) {
    failed = net::try_connect(address, deadline, socket);
    if (failed == 0) {
      return Channel(std::move(socket));
    }
  }
  return CtlFailure{
      Error{"no agent can be reached there: " + std::generic_category().message(failed),
            "--at " + to_text(at), "name the job's rendezvous endpoint"},
      failed == ETIMEDOUT ? kCtlNoAnswer : kCtlNoAgent};
}

/// Its layout is the same in all versions, so it can be read whatever the agent's is.
/// What an agent says after its plain preamble; empty: nothing that says why.
std::string rejection(Exchange& exchange) {
  constexpr std::size_t kSentencesBytesMax = 8 * 1'024;
  const std::string header = exchange.read(kFrameHeaderBytes);
  std::size_t length = 0;
  for (std::size_t i = 0; i + 1 < header.size(); ++i) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  }
  if (header.size() < kFrameHeaderBytes || length == 0 || length > kSentencesBytesMax) {
    return {};
  }
  const auto said = decode(static_cast<std::uint8_t>(header.back()), exchange.read(length - 1));
  const auto* rejected = said ? std::get_if<message::Rejected>(&*said) : nullptr;
  return rejected != nullptr ? rejected->why : std::string();
}

CtlFailure refused(const RemoteAgent& agent, const std::string& why, const char* todo) {
  return {Error{"the agent refuses: " + why, "--at " + to_text(agent.at), todo}, kCtlFailed};
}

/// A plain preamble: by the agent's own sentence.
CtlFailure turned_down(const RemoteAgent& agent, Exchange& exchange, bool proved) {
  if (proved) {
    return refused(agent, wrong_token_given().why, "give the job's own token");
  }
  const std::string why = rejection(exchange);
  if (why == tls_is_missing().why) {
    return refused(agent, why, "give --tls-ca, --tls-cert and --tls-key, as the job has them");
  }
  if (why == tls_is_not_spoken().why) {
    return refused(agent, why, "leave --tls-ca, --tls-cert and --tls-key out, and their variables");
  }
  if (agent.tls) {
    return refused(agent, why, "leave the token out");
  }
  return {
      Error{"the job there has no token, so it serves no other machine",
            "--at " + to_text(agent.at), "run ddpctl on a node of it, or read its --metrics-port"},
      kCtlFailed};
}

/// Why the exchange did not go on, from what came in place of the agent's part. An agent that
/// breaks it off answers with its plain preamble and Rejected. At which part it does so says why:
/// before the proof it has no token, after the proof the token is another one.
CtlFailure broken_off(const RemoteAgent& agent, Exchange& exchange, const std::string& came,
                      bool proved) {
  const std::string where = "--at " + to_text(agent.at);
  if (exchange.late()) {
    return {Error{"it does not answer", where, "see whether an agent of the job listens there"},
            kCtlNoAnswer};
  }
  if (const std::string failure = exchange.tls_failure(); !failure.empty()) {
    return tls_failed(failure, where);
  }
  const PreambleCheck check = check_preamble(came);
  if (check.verdict == PreambleVerdict::good) {
    return turned_down(agent, exchange, proved);
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

/// None: it has been done. An agent without TLS answers in plain text, and says why it refuses: so
/// the exchange goes on without a session then.
std::optional<CtlFailure> speak_tls(const RemoteAgent& agent, Channel& channel,
                                    net::Deadline deadline) {
  channel.tls = std::make_unique<TlsSession>(agent.tls->newest(), TlsSide::connects);
  const int failed = shake_hands(channel, deadline);
  if (failed == 0) {
    return std::nullopt;
  }
  const bool is_plain = failed == EPROTO && channel.tls->failure().empty();
  if (is_plain) {
    channel.tls.reset();
  }
  Exchange exchange(channel, deadline);
  if (failed == ETIMEDOUT) {
    return CtlFailure{Error{"it does not answer", "--at " + to_text(agent.at),
                            "see whether an agent of the job listens there"},
                      kCtlNoAnswer};
  }
  return broken_off(agent, exchange, is_plain ? exchange.read(kPreambleBytes) : "", false);
}

/// The order of job_token.h: this side proves the token first. It says nothing of what it wants
/// before the other side has proved it, too.
std::optional<CtlFailure> prove_token(const RemoteAgent& agent, Channel& channel,
                                      net::Deadline deadline) {
  // As this side sees it: an address translation in between shows the agent another place.
  const net::Address end = net::far_end(channel.socket.get());
  const std::string place = token_place(end.host(), end.port());
  Exchange exchange(channel, deadline);
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
  exchange.say(agent.token->proof(JobToken::Side::connects, facts));
  came = exchange.read(kPreambleBytes);
  if (!is_of_proof(came)) {
    return broken_off(agent, exchange, came, true);
  }
  came = exchange.read(kTokenProofBytes);
  if (!agent.token->is_proof(came, JobToken::Side::accepts, facts)) {
    return CtlFailure{Error{"what listens there does not have the job's token",
                            "--at " + to_text(agent.at), "name the job's rendezvous endpoint"},
                      kCtlFailed};
  }
  return std::nullopt;
}

/// None: no token is given. The file goes before the variable, as for an agent.
Result<std::optional<JobToken>> given_token(const std::optional<std::string>& token_file) {
  const char* const variable = std::getenv(kTokenVariable);
  if (!token_file && variable == nullptr) {
    return std::optional<JobToken>();
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
  return std::optional<JobToken>(std::move(*token));
}

}  // namespace

CtlFailure tls_failed(const std::string& failure, const std::string& where) {
  // Of TlsSession, which speaks of agents on both sides.
  constexpr std::string_view kDistrusted = "it does not trust this agent's certificate: ";
  if (failure.starts_with(kDistrusted)) {
    return {Error{"the agent there does not trust ddpctl's certificate: " +
                      failure.substr(kDistrusted.size()),
                  where, "give a valid one of the job's authority (--tls-cert, --tls-key)"},
            kCtlFailed};
  }
  return {Error{not_of_this_job(failure), where, kTlsRemedy}, kCtlFailed};
}

/// What cannot be right is told before anything is connected to.
Result<RemoteAgent> remote_agent(const Endpoint& at, const std::optional<std::string>& token_file,
                                 const GivenCertificates& certificates) {
  auto token = given_token(token_file);
  if (!token) {
    return token.error();
  }
  const auto files =
      job_certificates(certificates, [](const char* name) { return std::getenv(name); });
  if (!files) {
    return files.error();
  }
  RemoteAgent agent{at, std::move(*token), nullptr};
  if (*files) {
    auto tls = TlsContext::make_mutual(**files);
    if (!tls) {
      return tls.error();
    }
    agent.tls = std::make_shared<JobTls>(std::move(*tls));
  }
  if (!agent.token && !agent.tls) {
    return Error{"another machine's agent asks for the job's token or its certificates",
                 "--at " + to_text(at),
                 "give --job-token-file FILE or DDPRUN_JOB_TOKEN where the job has a token, and "
                 "--tls-ca, --tls-cert and --tls-key where it has TLS; a job with neither is "
                 "looked after on its own nodes"};
  }
  return agent;
}

std::variant<Channel, CtlFailure> connect_to_remote(const RemoteAgent& agent,
                                                    net::Deadline deadline) {
  auto connected = connect_to(agent.at, deadline);
  if (auto* failure = std::get_if<CtlFailure>(&connected)) {
    return std::move(*failure);
  }
  Channel& channel = std::get<Channel>(connected);
  if (agent.tls) {
    if (auto failure = speak_tls(agent, channel, deadline)) {
      return std::move(*failure);
    }
  }
  if (agent.token) {
    if (auto failure = prove_token(agent, channel, deadline)) {
      return std::move(*failure);
    }
  }
  DDP_CHECK(static_cast<bool>(channel), "a connection goes on with its socket");
  return std::move(channel);
}

}  // namespace ddprun
