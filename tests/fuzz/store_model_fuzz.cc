// Well-formed requests, drawn from the bytes: the store answers each as a plain map would.
#include <charconv>
#include <deque>
#include <map>
#include <string>

#include "rendezvous/store/store_session.h"
#include "tests/fuzz/input.h"

using namespace ddprun;
using namespace ddprun::fuzz;
using namespace ddprun::store_protocol;

namespace {

class Model {
 public:
  explicit Model(Input& input) : input_(input) {}

  void run() {
    send(std::string("\x00\xCE\xF7\x85\x3C", 5), {});
    for (int steps = 0; steps < 200 && !input_.empty(); ++steps) {
      one();
    }
  }

 private:
  std::string key() {
    static constexpr const char* kKeys[] = {"", "a", "b", "init/", "default_pg/0//worker_count"};
    return kKeys[input_.byte() % std::size(kKeys)];
  }
  std::string value() { return std::string(input_.text(input_.byte() % 24)); }

  /// A request of `operation`, which the fields come after.
  static std::string request(Operation operation, const std::string& key) {
    std::string bytes;
    put_u8(bytes, static_cast<std::uint8_t>(operation));
    put_bytes(bytes, key);
    return bytes;
  }

  void send(const std::string& bytes, const std::string& expected) {
    std::string reply;
    KeySpace::Woken woken;
    require(session_.receive(bytes, reply, woken), "a well-formed request is accepted");
    require(reply == expected, "the store answers as the model does");
    require(woken.empty(), "nobody waits here");
  }

  void one() {
    std::string reply;
    const std::string name = key();
    switch (input_.byte() % 9) {
      case 0: {
        std::string bytes = request(Operation::set, name);
        values_[name] = value();
        put_bytes(bytes, values_[name]);
        return send(bytes, {});
      }
      case 1:
        put_bytes(reply, values_.contains(name) ? values_[name] : "");
        return send(request(Operation::get, name), reply);
      case 2:
        return add(name);
      case 3: {
        std::string bytes = request(Operation::append, name);
        const std::string more = value();
        put_bytes(bytes, more);
        values_[name] += more;
        return send(bytes, {});
      }
      case 4:
        put_i64(reply, static_cast<std::int64_t>(values_.erase(name)));
        return send(request(Operation::delete_key, name), reply);
      case 5: {
        std::string bytes;
        put_u8(bytes, static_cast<std::uint8_t>(Operation::num_keys));
        put_i64(reply, static_cast<std::int64_t>(values_.size()));
        return send(bytes, reply);
      }
      case 6:
        return compare_set(name);
      case 7: {
        std::string bytes = request(Operation::queue_push, name);
        queues_[name].push_back(value());
        put_bytes(bytes, queues_[name].back());
        return send(bytes, {});
      }
      default: {
        auto& queue = queues_[name];
        put_i64(reply, static_cast<std::int64_t>(queue.size()));
        if (!queue.empty()) {
          put_bytes(reply, queue.front());
          queue.pop_front();
        }
        return send(request(Operation::queue_pop, name), reply);
      }
    }
  }

  void add(const std::string& name) {
    // Text that is no number is refused; the unit tests have that.
    std::int64_t before = 0;
    if (const auto found = values_.find(name); found != values_.end()) {
      const std::string& text = found->second;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), before);
      if (error != std::errc() || end != text.data() + text.size()) {
        return;
      }
    }
    const std::int64_t delta = static_cast<std::int64_t>(input_.byte()) - 128;
    const auto sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(before) +
                                               static_cast<std::uint64_t>(delta));
    values_[name] = std::to_string(sum);
    std::string bytes = request(Operation::add, name);
    put_i64(bytes, delta);
    std::string reply;
    put_i64(reply, sum);
    send(bytes, reply);
  }

  void compare_set(const std::string& name) {
    const std::string expected = value();
    const std::string desired = value();
    std::string bytes = request(Operation::compare_set, name);
    put_bytes(bytes, expected);
    put_bytes(bytes, desired);
    const auto found = values_.find(name);
    std::string after = expected;
    if (found == values_.end() ? expected.empty() : found->second == expected) {
      values_[name] = after = desired;
    } else if (found != values_.end()) {
      after = found->second;
    }
    std::string reply;
    put_bytes(reply, after);
    send(bytes, reply);
  }

  Input& input_;
  KeySpace keys_;
  StoreSession session_{keys_, ConnectionId{1}};
  std::map<std::string, std::string> values_;
  std::map<std::string, std::deque<std::string>> queues_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  Model(input).run();
  return 0;
}
