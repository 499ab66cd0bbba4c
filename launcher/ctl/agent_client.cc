#include "launcher/ctl/agent_client.h"

#include <poll.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/ctl/blocking_channel.h"
#include "launcher/ctl/ctl_exit.h"
#include "rendezvous/base/socket.h"

namespace ddprun {
namespace {

namespace http = boost::beast::http;
using Deadline = net::Deadline;

/// Between two tries where an agent has not taken its earlier connections yet.
constexpr int kRetryPauseMs = 50;

/// An agent's loop answers within milliseconds, whatever the job does. So who does not answer is
/// stopped, or its machine is in trouble.
CtlFailure no_answer(const ChosenAgent& agent, const std::string& what) {
  return {Error{what, name_of(agent),
                "see whether it is stopped or its host is out of memory, and ask again"},
          kCtlNoAnswer};
}

std::string no_answer_in_time() {
  return "it does not answer within " + std::to_string(kCtlPatience.count() / 1'000) + " s";
}

/// An order that is in the agent's socket is carried out when the agent goes on. It cannot be taken
/// back, and a second one would mean more than the first (docs/preemption.md, Several signals).
CtlFailure no_answer_to_order(const ChosenAgent& agent) {
  return {Error{no_answer_in_time(), name_of(agent),
                "see whether it is stopped or its host is out of memory; it may still carry the "
                "order out when it goes on, which ddpctl status shows then"},
          kCtlNoAnswer};
}

/// 0, or errno; ETIMEDOUT at the deadline.
int connect_until(const FoundAgent& agent, Deadline deadline, Fd& connection) {
  for (;;) {
    const int failed = connect_to_agent(agent.directory, agent.name, connection);
    if (failed != EAGAIN) {
      return failed;
    }
    if (net::milliseconds_left(deadline) == 0) {
      return ETIMEDOUT;
    }
    ::poll(nullptr, 0, kRetryPauseMs);
  }
}

/// A connection on which a question can be asked. `failed`: errno of a local agent's socket.
std::variant<Channel, CtlFailure> connect(const ChosenAgent& agent, Deadline deadline) {
  if (const auto* remote = std::get_if<RemoteAgent>(&agent)) {
    return connect_to_remote(*remote, deadline);
  }
  Fd connection;
  switch (connect_until(std::get<FoundAgent>(agent), deadline, connection)) {
    case 0:
      return Channel(std::move(connection));
    case ECONNREFUSED:
    case ENOENT:
      return CtlFailure{Error{"it has ended", name_of(agent), ""}, kCtlNoAgent};
    case EACCES:
      return CtlFailure{Error{"another user listens at its socket", name_of(agent), ""},
                        kCtlNoAgent};
    case ETIMEDOUT:
      return no_answer(agent, no_answer_in_time());
    default:
      return no_answer(agent, "it cannot be reached: " + std::string(std::strerror(errno)));
  }
}

/// 0, or errno; ECONNRESET for an end in the middle, EPROTO for what is no answer.
int receive(Channel& channel, Deadline deadline, http::response_parser<http::string_body>& parser) {
  while (!parser.is_done()) {
    const std::size_t had = channel.unread.size();
    if (const int failed = receive_some(channel, deadline); failed != 0) {
      return failed;
    }
    const bool ended = channel.unread.size() == had;
    boost::system::error_code failed;
    // The agent closes after its answer. An end before that is one in the middle; one before the
    // first byte is nothing that Beast's parser may be told.
    if (ended && !parser.got_some()) {
      return ECONNRESET;
    }
    if (ended) {
      parser.put_eof(failed);
      return failed ? ECONNRESET : 0;
    }
    const std::size_t used = parser.put(boost::asio::buffer(channel.unread), failed);
    channel.unread.erase(0, used);
    if (failed && failed != http::error::need_more) {
      return EPROTO;
    }
  }
  return 0;
}

}  // namespace

/// Several agents may run here.
std::string name_of(const ChosenAgent& agent) {
  if (const auto* remote = std::get_if<RemoteAgent>(&agent)) {
    return "agent at " + to_text(remote->at);
  }
  const AgentSocketName& name = std::get<FoundAgent>(agent).name;
  return "agent " + name.job + " (pid " + std::to_string(name.pid) + ")";
}

/// The deadline is one for all: connecting, asking, and reading the answer.
std::variant<AgentAnswer, CtlFailure> ask_agent(const ChosenAgent& agent,
                                                const AgentRequest& request) {
  const Deadline deadline = std::chrono::steady_clock::now() + kCtlPatience;
  auto connected = connect(agent, deadline);
  if (auto* failure = std::get_if<CtlFailure>(&connected)) {
    return std::move(*failure);
  }
  Channel& connection = std::get<Channel>(connected);
  http::response_parser<http::string_body> parser;
  // It takes all that is there at once, and the body up to a limit of ours: what answers could be
  // something else than an agent.
  parser.eager(true);
  parser.body_limit(kCtlAnswerBytesMax);
  int failed = send_all(connection,
                        request.method + " " + request.target +
                            " HTTP/1.1\r\nHost: agent\r\nContent-Length: " +
                            std::to_string(request.body.size()) + "\r\n\r\n" + request.body,
                        deadline);
  if (failed == 0) {
    failed = receive(connection, deadline, parser);
  }
  if (failed == ETIMEDOUT) {
    return request.method == "GET" ? no_answer(agent, no_answer_in_time())
                                   : no_answer_to_order(agent);
  }
  // Who listens looks at the certificate last, after this side has done its part (TLS 1.3).
  if (failed != 0 && connection.tls && !connection.tls->failure().empty()) {
    return tls_failed(connection.tls->failure(), name_of(agent));
  }
  // An agent that is no coordinator takes the proof, and expects another agent's question.
  // So does one that waits for the proof of a token of which this side does not know.
  if (failed != 0 && is_remote(agent)) {
    const std::string of_token = std::get<RemoteAgent>(agent).token
                                     ? ""
                                     : "give --job-token-file where the job has a token; else ";
    return CtlFailure{
        Error{"it ended the connection without an answer", name_of(agent),
              of_token + "ask the coordinator, which ddpctl status on a node of the job names"},
        kCtlFailed};
  }
  // An agent that ends does so, and one of which more is asked at once than it keeps connections.
  if (failed == ECONNRESET || failed == EPIPE) {
    return CtlFailure{Error{"it closed the connection before its answer was whole", name_of(agent),
                            "ask again: it was about to end, or too many asked at once"},
                      kCtlNoAnswer};
  }
  if (failed != 0) {
    return no_answer(agent, "its answer did not come whole: " + std::string(std::strerror(failed)));
  }
  return AgentAnswer{static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
}

/// The agent's own sentence counts: it knows why it refuses.
std::variant<std::string, CtlFailure> body_from(const ChosenAgent& agent,
                                                const AgentRequest& request) {
  auto answered = ask_agent(agent, request);
  if (auto* failure = std::get_if<CtlFailure>(&answered)) {
    return std::move(*failure);
  }
  AgentAnswer& answer = std::get<AgentAnswer>(answered);
  constexpr int kSuccess = 2;
  constexpr int kHundred = 100;
  if (answer.status / kHundred == kSuccess) {
    return std::move(answer.body);
  }
  const auto told = nlohmann::json::parse(answer.body, nullptr, false);
  const bool says_why = told.is_object() && told.contains("error") && told["error"].is_string();
  return CtlFailure{Error{says_why ? told["error"].get<std::string>()
                                   : "it answers with status " + std::to_string(answer.status),
                          name_of(agent), ""},
                    kCtlFailed};
}

}  // namespace ddprun
