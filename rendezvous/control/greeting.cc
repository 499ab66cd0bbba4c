#include "rendezvous/control/greeting.h"

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/control/byte_stream.h"
#include "rendezvous/control/job_token.h"
#include "rendezvous/control/search_input.h"
#include "rendezvous/control/tls_words.h"
#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using Who = AuthenticationOutcome::Who;

/// A Rejected frame with both of its sentences. What is longer is no answer, but the length field
/// of a program that speaks another protocol.
constexpr std::size_t kAnswerBytesMax = 8 * 1024;

/// It reads exactly the answer and no byte more: what follows belongs to the client that takes
/// over.
class HelloAndAnswer final : public Greeting,
                             private AuthenticationOwner,
                             private ByteStreamOwner,
                             public std::enable_shared_from_this<HelloAndAnswer> {
 public:
  HelloAndAnswer(asio::io_context& io, Credentials credentials, message::Hello hello,
                 GreetingOwner& owner)
      : io_(io), credentials_(std::move(credentials)), hello_(std::move(hello)), owner_(owner) {}

  void start(Fd socket) {
    if (credentials_.any()) {
      authentication_ = authenticate_host(io_, std::move(socket), credentials_, *this, 0);
    } else {
      say_hello(std::move(socket));
    }
  }

  Channel release() override {
    over_ = true;
    return stream_ ? stream_->release() : Channel{};
  }

  void close() override {
    over_ = true;
    authentication_.reset();
    if (stream_) {
      stream_->close();
    }
  }

 private:
  /// What is said in place of a proof is the answer: a refusal, or the words of a stranger.
  void on_authenticated(std::uint64_t /*id*/, AuthenticationOutcome outcome) override {
    const auto alive = shared_from_this();
    authentication_.reset();
    switch (outcome.who) {
      case Who::member:
        is_member_ = true;
        is_tls_ = outcome.channel.tls != nullptr;
        say_hello(std::move(outcome.channel));
        break;
      case Who::impostor:
        tell(impostor());
        break;
      case Who::distrusted:
        tell(search::Rejected{{outcome.said, kTlsRemedy}});
        break;
      case Who::garbled:
        tell(search::Unbelieved{outcome.said});
        break;
      case Who::other:
        is_tls_ = outcome.channel.tls != nullptr;
        outcome.channel.unread.insert(0, outcome.said);
        stream_ = ByteStream::create(io_, std::move(outcome.channel), *this);
        read(kPreambleBytes, &HelloAndAnswer::on_preamble);
        break;
      case Who::gone:
      case Who::refused:  // only who has connected is
        broke(outcome.by_reset, outcome.said);
        break;
    }
  }

  /// Not before the other side is known: a program that took the endpoint's port would otherwise be
  /// told the whole description of the node.
  void say_hello(Channel channel) {
    stream_ = ByteStream::create(io_, std::move(channel), *this);
    stream_->write(preamble() + encode(hello_));
    read(kPreambleBytes, &HelloAndAnswer::on_preamble);
  }

  /// Exactly `size` bytes into `answer_`, then goes on.
  void read(std::size_t size, void (HelloAndAnswer::*next)()) {
    answer_.clear();
    size_ = size;
    next_ = next;
    if (size == 0) {
      (this->*next)();
    } else {
      stream_->read_some(size);
    }
  }

  void on_bytes(std::string bytes) override {
    const auto alive = shared_from_this();
    answer_ += bytes;
    if (answer_.size() < size_) {
      stream_->read_some(size_ - answer_.size());
    } else {
      (this->*next_)();
    }
  }

  /// A listener that does not trust the certificate of this agent says so after its own part of the
  /// handshake (TLS 1.3): here.
  void on_stream_end(const StreamEnd& end) override {
    const auto alive = shared_from_this();
    if (end.failure.empty()) {
      broke(end.by_reset, answer_);
    } else {
      tell(search::Rejected{{not_of_this_job(end.failure), kTlsRemedy}});
    }
  }

  /// A stranger may send fewer bytes than a preamble has, and close: they still tell what it is.
  void broke(bool by_reset, const std::string& said_last) {
    if (check_preamble(said_last).verdict == PreambleVerdict::stranger) {
      tell(stranger(said_last));
    } else {
      tell(search::Disconnected{by_reset ? was_reset() : was_closed()});
    }
  }

  void on_preamble() {
    const PreambleCheck check = check_preamble(answer_);
    if (check.verdict == PreambleVerdict::other_version && is_plain_for_tls()) {
      tell(search::Unbelieved{plain_answer("it speaks another version of ddprun's protocol")});
    } else if (check.verdict == PreambleVerdict::other_version) {
      tell(search::OtherVersion{static_cast<std::uint16_t>(check.version & ~kTokenVersionBit)});
    } else if (check.verdict != PreambleVerdict::good) {
      tell(stranger(answer_));
    } else {
      read(kFrameHeaderBytes, &HelloAndAnswer::on_header);
    }
  }

  /// The header of a frame: length in little-endian, which counts the type, and the type.
  void on_header() {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      length |= static_cast<std::size_t>(static_cast<unsigned char>(answer_[i])) << (8 * i);
    }
    type_ = static_cast<std::uint8_t>(answer_[4]);
    if (length == 0 || length > kAnswerBytesMax) {
      tell(stranger(answer_));
    } else {
      read(length - 1, &HelloAndAnswer::take_answer);
    }
  }

  /// Without the proof only a refusal counts. Whoever listens there could else lead this agent, or
  /// send it to one that does.
  void take_answer() {
    search::Input heard = answer_of(type_, answer_);
    if (is_plain_for_tls()) {
      const auto* said = std::get_if<search::Rejected>(&heard);
      tell(search::Unbelieved{plain_answer(said != nullptr ? said->rejected.why : "")});
      return;
    }
    if (credentials_.any() && !is_member_ && !std::holds_alternative<search::Rejected>(heard)) {
      heard = impostor();
    }
    tell(std::move(heard));
  }

  /// Who listens has not shown a certificate. What it says anybody may have said.
  [[nodiscard]] bool is_plain_for_tls() const { return credentials_.tls && !is_tls_; }

  /// What is said is for people all the same: most often a job without TLS is there.
  static std::string plain_answer(const std::string& said) {
    return "who listens there answers in plain text, and this agent speaks TLS alone" +
           (said.empty() ? "" : " (it says: " + printable(said) + ")");
  }

  [[nodiscard]] search::Input impostor() const {
    DDP_CHECK(credentials_.token, "without a token TLS has told the two apart");
    return search::Rejected{{"who listens there does not have the job's token",
                             "give every agent the same --job-token-file, or name another "
                             "endpoint"}};
  }

  /// The owner may end this greeting in answer; who calls this does nothing after it.
  void tell(search::Input heard) {
    if (!over_) {
      owner_.on_greeted(std::move(heard));
    }
  }

  asio::io_context& io_;
  Credentials credentials_;
  message::Hello hello_;
  GreetingOwner& owner_;
  Authentication authentication_;  ///< while it is under way
  std::shared_ptr<ByteStream> stream_;
  std::string answer_;
  std::size_t size_ = 0;  ///< of the part that is read
  void (HelloAndAnswer::*next_)() = nullptr;
  std::uint8_t type_ = 0;
  bool is_member_ = false;
  bool is_tls_ = false;  ///< who listens has shown a certificate, if no token
  bool over_ = false;
};

}  // namespace

std::shared_ptr<Greeting> Greeting::begin(asio::io_context& io, Fd socket,
                                          const Credentials& credentials, message::Hello hello,
                                          GreetingOwner& owner) {
  auto greeting = std::make_shared<HelloAndAnswer>(io, credentials, std::move(hello), owner);
  greeting->start(std::move(socket));
  return greeting;
}

}  // namespace ddprun
