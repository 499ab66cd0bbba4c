#include "rendezvous/store/store_protocol.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "rendezvous/base/check.h"

namespace ddprun::store_protocol {

static_assert(std::endian::native == std::endian::little,
              "the protocol is in host byte order, little-endian everywhere it is used");

namespace {

/// The legacy dialect's opcodes (PyTorch 1.9 .. 2.0); WATCH_KEY (7) is not served.
constexpr std::array<std::optional<Operation>, 13> kLegacy{
    Operation::set,        Operation::compare_set, Operation::get,       Operation::add,
    Operation::check,      Operation::wait,        Operation::num_keys,  std::nullopt,
    Operation::delete_key, Operation::append,      Operation::multi_get, Operation::multi_set,
    Operation::cancel_wait};

/// Reads forward over bytes that may end anywhere; remembers why it stopped. Each length comes from
/// a stranger: it is compared with its limit before it is added to anything.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  bool integer(T& value) {
    if (!has(sizeof(T))) {
      return false;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  bool text(std::string_view& view, std::uint64_t bytes_max) {
    std::uint64_t length = 0;
    if (!integer(length)) {
      return false;
    }
    if (length > bytes_max) {
      too_long_ = true;
      return false;
    }
    if (!has(length)) {
      return false;
    }
    view = bytes_.substr(at_, length);
    DDP_CHECK(view.size() == length, "a text that is there is whole");
    at_ += length;
    return true;
  }

  bool count(std::uint64_t& value) {
    if (!integer(value)) {
      return false;
    }
    too_long_ = value > kKeysMax;
    return !too_long_;
  }

  /// At least this many bytes follow; otherwise notes how many are needed in all.
  bool has(std::uint64_t size) {
    DDP_CHECK(at_ <= bytes_.size(), "nothing beyond the end is read");
    needed_ = at_ + size;
    return needed_ <= bytes_.size();
  }

  [[nodiscard]] std::size_t at() const { return at_; }
  [[nodiscard]] std::size_t needed() const { return needed_; }
  [[nodiscard]] bool too_long() const { return too_long_; }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
  std::size_t needed_ = 0;
  bool too_long_ = false;
};

/// The count is compared with the bytes that so many texts need at least, before a list of that
/// size is begun.
bool read_keys(Reader& in, Request& request) {
  std::uint64_t count = 0;
  if (!in.count(count) || !in.has(count * sizeof(std::uint64_t))) {
    return false;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string_view key;
    if (!in.text(key, kKeyBytesMax)) {
      return false;
    }
    request.keys.push_back(key);
  }
  return true;
}

bool read_pairs(Reader& in, Request& request) {
  std::uint64_t count = 0;
  if (!in.count(count) || !in.has(count * 2 * sizeof(std::uint64_t))) {
    return false;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string_view key;
    std::string_view value;
    if (!in.text(key, kKeyBytesMax) || !in.text(value, kValueBytesMax)) {
      return false;
    }
    request.keys.push_back(key);
    request.values.push_back(value);
  }
  DDP_CHECK(request.keys.size() == request.values.size(), "each key has a value");
  return true;
}

/// The body that belongs to the operation; false when it is not complete or too long.
bool read_body(Reader& in, Request& request) {
  switch (request.operation) {
    case Operation::validate:
    case Operation::ping: {
      std::uint32_t word = 0;
      const bool read = in.integer(word);
      request.number = word;
      return read;
    }
    case Operation::set:
    case Operation::append:
    case Operation::queue_push:
      return in.text(request.key, kKeyBytesMax) && in.text(request.value, kValueBytesMax);
    case Operation::compare_set:
      return in.text(request.key, kKeyBytesMax) && in.text(request.value, kValueBytesMax) &&
             in.text(request.desired, kValueBytesMax);
    case Operation::get:
    case Operation::delete_key:
    case Operation::queue_pop:
    case Operation::queue_len:
      return in.text(request.key, kKeyBytesMax);
    case Operation::add:
    case Operation::barrier:
      return in.text(request.key, kKeyBytesMax) && in.integer(request.number);
    case Operation::check:
    case Operation::wait:
    case Operation::multi_get:
      return read_keys(in, request);
    case Operation::multi_set:
      return read_pairs(in, request);
    case Operation::num_keys:
    case Operation::cancel_wait:
    case Operation::list_keys:
      return true;
  }
  return false;
}

/// The requests that may be very long, and so are walked once, not parsed anew with each piece.
bool has_list(Operation operation) {
  return operation == Operation::check || operation == Operation::wait ||
         operation == Operation::multi_get || operation == Operation::multi_set;
}

std::optional<Operation> modern_operation(std::uint8_t opcode) {
  if (opcode < static_cast<std::uint8_t>(Operation::set) ||
      opcode > static_cast<std::uint8_t>(Operation::barrier)) {
    return std::nullopt;  // a second VALIDATE too is an invalid command
  }
  return static_cast<Operation>(opcode);
}

}  // namespace

/// What is parsed goes away in large steps: erasing after each request would move the rest of a
/// pipeline each time.
void RequestParser::feed(std::string_view bytes) {
  DDP_CHECK(at_ <= buffer_.size(), "no more is taken out than was put in");
  if (at_ > 64 * 1024) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
  buffer_ += bytes;
}

/// A modern client opens with VALIDATE and the magic. A legacy one may open with opcode 0 as well
/// (SET), but then a key length follows, and no key is a gigabyte long.
RequestParser::Status RequestParser::decide_dialect() {
  DDP_CHECK(dialect_ == Dialect::unknown, "a connection speaks one dialect");
  constexpr std::size_t kHandshakeBytes = 1 + sizeof kMagic;
  const std::string_view bytes = std::string_view(buffer_).substr(at_);
  if (bytes.empty()) {
    return Status::need_more;
  }
  const auto first = static_cast<std::uint8_t>(bytes.front());
  if (first != 0) {
    dialect_ = Dialect::legacy;
    return first < kLegacy.size() ? Status::request : Status::malformed;
  }
  if (bytes.size() < kHandshakeBytes) {
    needed_ = kHandshakeBytes;
    return Status::need_more;
  }
  std::uint32_t magic = 0;
  std::memcpy(&magic, bytes.data() + 1, sizeof magic);
  if (magic == kMagic) {
    dialect_ = Dialect::modern;
    at_ += kHandshakeBytes;
  } else {
    dialect_ = Dialect::legacy;
  }
  return Status::request;
}

/// `needed_` is what the request in hand needs at least. As long as less is here nothing is parsed,
/// so a large value that comes in small pieces costs no more than its length.
RequestParser::Status RequestParser::next(Request& request) {
  if (pending() < needed_) {
    return wait_for_more();
  }
  if (dialect_ == Dialect::unknown) {
    if (const Status decided = decide_dialect(); decided != Status::request) {
      return decided;
    }
    needed_ = 1;
    if (pending() == 0) {
      return wait_for_more();
    }
  }
  const std::string_view bytes = std::string_view(buffer_).substr(at_);
  DDP_CHECK(!bytes.empty(), "a request begins with its operation");
  const auto opcode = static_cast<std::uint8_t>(bytes.front());
  const auto operation = dialect_ == Dialect::modern ? modern_operation(opcode)
                         : opcode < kLegacy.size()   ? kLegacy[opcode]
                                                     : std::nullopt;
  if (!operation) {
    return Status::malformed;
  }
  request.operation = *operation;
  request.keys.clear();
  request.values.clear();
  if (has_list(*operation)) {
    if (const Status walked = walk_list(bytes, *operation == Operation::multi_set);
        walked != Status::request) {
      return walked;
    }
  }
  Reader in(bytes.substr(1));
  if (!read_body(in, request)) {
    needed_ = in.needed() + 1;
    const bool hopeless = in.too_long() || needed_ > kRequestBytesMax;
    return hopeless ? Status::malformed : Status::need_more;
  }
  at_ += 1 + in.at();
  DDP_CHECK(at_ <= buffer_.size(), "a whole request lies in the buffer");
  DDP_CHECK(list_left_ == 0, "a whole request has all of its list");
  needed_ = 1;
  in_list_ = false;
  return Status::request;
}

/// Continues where the list of the request in hand was left; `request` when all of it is there.
/// Without this, 131,072 keys that come one by one would be parsed from the first on each time.
RequestParser::Status RequestParser::walk_list(std::string_view bytes, bool pairs) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  const auto word_at = [&bytes](std::size_t at) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    return word;
  };
  if (!in_list_) {
    needed_ = 1 + kWord;
    if (bytes.size() < needed_) {
      return Status::need_more;
    }
    const std::uint64_t count = word_at(1);
    if (count > kKeysMax) {
      return Status::malformed;
    }
    in_list_ = true;
    list_left_ = pairs ? 2 * count : count;
    list_at_ = needed_;
  }
  for (; list_left_ > 0; --list_left_) {
    const bool is_value = pairs && list_left_ % 2 == 1;  // key, value, key, value
    const std::size_t rest = (list_left_ - 1) * kWord;   // the least that the others take
    needed_ = list_at_ + kWord + rest;
    if (bytes.size() < list_at_ + kWord) {
      return Status::need_more;
    }
    const std::uint64_t length = word_at(list_at_);
    if (length > (is_value ? kValueBytesMax : kKeyBytesMax)) {
      return Status::malformed;
    }
    needed_ += length;
    if (needed_ > kRequestBytesMax) {
      return Status::malformed;
    }
    if (bytes.size() < list_at_ + kWord + length) {
      return Status::need_more;
    }
    list_at_ += kWord + length;
    DDP_CHECK(list_at_ <= bytes.size(), "what was walked over is there");
  }
  return Status::request;
}

/// Nothing is left to parse: a buffer that has served a large request is given back.
RequestParser::Status RequestParser::wait_for_more() {
  constexpr std::size_t kKeptBytes = 512;
  DDP_CHECK(at_ <= buffer_.size(), "no more is taken out than was put in");
  if (at_ == buffer_.size()) {
    at_ = 0;
    buffer_.clear();
    if (buffer_.capacity() > kKeptBytes) {
      std::string().swap(buffer_);
    }
  }
  return Status::need_more;
}

namespace {

template <class T>
void put(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

}  // namespace

void put_u8(std::string& out, std::uint8_t value) {
  out.push_back(static_cast<char>(value));
}
void put_u32(std::string& out, std::uint32_t value) {
  put(out, value);
}
void put_i64(std::string& out, std::int64_t value) {
  put(out, value);
}
void put_bytes(std::string& out, std::string_view bytes) {
  put(out, static_cast<std::uint64_t>(bytes.size()));
  out += bytes;
}

}  // namespace ddprun::store_protocol
