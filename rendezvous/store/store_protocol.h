// StoreProtocol: PyTorch's TCPStore requests and replies as bytes, in both dialects: "modern"
// (PyTorch 2.2 and later; begins with VALIDATE) and "legacy" (1.9 to 2.1). Pure. The facts are in
// docs/store-protocol.md. All integers are little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::store_protocol {

/// Numbered as in the modern dialect.
enum class Operation : std::uint8_t {
  validate = 0,
  set = 1,
  compare_set = 2,
  get = 3,
  add = 4,
  check = 5,
  wait = 6,
  num_keys = 7,
  delete_key = 8,
  append = 9,
  multi_get = 10,
  multi_set = 11,
  cancel_wait = 12,
  ping = 13,
  queue_push = 14,
  queue_pop = 15,
  queue_len = 16,
  list_keys = 17,
  barrier = 18,
};

inline constexpr std::uint32_t kMagic = 0x3C85F7CE;

// PyTorch's own limits; beyond them its server closes the connection too.
inline constexpr std::uint64_t kKeyBytesMax = 8 * 1024;
inline constexpr std::uint64_t kValueBytesMax = 8 * 1024 * 1024;
inline constexpr std::uint64_t kKeysMax = 128 * 1024;
/// Ours: bounds what one connection can make the server hold (a MULTI_SET of the limits above
/// would be a terabyte).
inline constexpr std::uint64_t kRequestBytesMax = 256 * 1024 * 1024;

// Replies of one byte.
inline constexpr char kReady = 0;         // CHECK
inline constexpr char kNotReady = 1;      // CHECK
inline constexpr char kStopWaiting = 0;   // WAIT, BARRIER
inline constexpr char kWaitCanceled = 1;  // CANCEL_WAIT

/// One request. Views point into the parser's buffer: valid until its next call.
struct Request {
  Operation operation = Operation::validate;
  std::string_view key;
  std::string_view value;                ///< SET, APPEND, QUEUE_PUSH; COMPARE_SET's expected
  std::string_view desired;              ///< COMPARE_SET
  std::int64_t number = 0;               ///< ADD's delta, BARRIER's world size, PING's nonce
  std::vector<std::string_view> keys;    ///< CHECK, WAIT, MULTI_GET, MULTI_SET
  std::vector<std::string_view> values;  ///< MULTI_SET
};

/// Cuts one connection's bytes into requests. Lengths are checked before anything is kept for
/// them, and a request is handed out only when it is complete. However small the pieces that it
/// comes in, its cost is that of its length; between requests no large buffer is kept.
class RequestParser {
 public:
  enum class Status : std::uint8_t { need_more, request, malformed };

  void feed(std::string_view bytes);
  /// After `malformed` the connection is beyond help: close it.
  Status next(Request& request);
  /// Bytes held for an incomplete request.
  [[nodiscard]] std::size_t pending() const { return buffer_.size() - at_; }

 private:
  enum class Dialect : std::uint8_t { unknown, modern, legacy };
  Status decide_dialect();
  Status walk_list(std::string_view bytes, bool pairs);
  Status wait_for_more();

  Dialect dialect_ = Dialect::unknown;
  std::string buffer_;
  std::size_t at_ = 0;      // parsed up to here
  std::size_t needed_ = 1;  // bytes from at_ below which parsing again is in vain
  // How far the list of the request in hand has been walked: one may have 131,072 texts.
  bool in_list_ = false;
  std::uint64_t list_left_ = 0;  // texts still to come
  std::size_t list_at_ = 0;      // from at_
};

// Building blocks of requests and replies; each appends to `out`.
void put_u8(std::string& out, std::uint8_t value);
void put_u32(std::string& out, std::uint32_t value);
void put_i64(std::string& out, std::int64_t value);
/// u64 length, then the bytes: both of the protocol's "string" and "bytes".
void put_bytes(std::string& out, std::string_view bytes);

}  // namespace ddprun::store_protocol
