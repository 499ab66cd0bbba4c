// What our StoreClient does and what it gets, a line each: client_story HOST PORT. store_test.py
// holds the answers of PyTorch's server against those of ours.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "rendezvous/store/store_client.h"

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

template <class T>
void tell(const char* name, const Result<T>& result) {
  if (!result) {
    std::printf("%s: refused\n", name);
  } else if constexpr (std::is_same_v<T, std::string>) {
    std::printf("%s: %zu bytes '%s'\n", name, result->size(), result->substr(0, 40).c_str());
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    std::printf("%s:", name);
    for (const auto& one : *result) {
      std::printf(" '%s'", one.c_str());
    }
    std::printf("\n");
  } else if constexpr (!std::is_same_v<T, void>) {
    std::printf("%s: %lld\n", name, static_cast<long long>(*result));
  } else {
    std::printf("%s: done\n", name);
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) {
    return 2;
  }
  auto connected = StoreClient::connect(
      {words[1], static_cast<std::uint16_t>(std::strtoul(words[2], nullptr, 10))}, 10s);
  if (!connected) {
    std::fprintf(stderr, "%s\n", connected.error().sentence().c_str());
    return 1;
  }
  StoreClient& store = *connected;
  tell("set", store.set("k", "v1"));
  tell("get", store.get("k"));
  tell("get of an empty value", (store.set("e", ""), store.get("e")));
  tell("add", store.add("n", 5));
  tell("add less", store.add("n", -7));
  tell("compare_set", store.compare_set("k", "v1", "v2"));
  tell("compare_set differs", store.compare_set("k", "v1", "v3"));
  tell("compare_set of a missing key", store.compare_set("c", "", "new"));
  tell("check", store.check({"k", "n"}));
  tell("check of a missing key", store.check({"k", "none"}));
  tell("wait", store.wait({"k", "n"}, 5s));
  tell("wait, too long", store.wait({"none"}, 100ms));
  tell("goes on", store.get("k"));
  tell("delete_key", store.delete_key("c"));
  tell("delete_key again", store.delete_key("c"));
  tell("num_keys", store.num_keys());
  tell("barrier of one", store.barrier("b", 1, 5s));
  tell("barrier, too long", store.barrier("b2", 2, 100ms));
  tell("goes on after it", store.get("k"));
  tell("8 MiB", (store.set("big", std::string(8UL << 20, 'x')), store.get("big")));
  // PyTorch's poll-based server knows nothing of the rest, and closes the connection at the first.
  tell("get, too long", store.get("none", 100ms));
  tell("goes on again", store.get("k"));
  tell("append", store.append("a", "one"));
  tell("append again", store.append("a", "two"));
  tell("get of both", store.get("a"));
  tell("multi_set", store.multi_set({{"m1", "x"}, {"m2", ""}}));
  tell("multi_get", store.multi_get({"m1", "m2", "a"}));
  tell("queue_push", store.queue_push("q", "1"));
  tell("queue_len", store.queue_len("q"));
  tell("queue_pop", store.queue_pop("q"));
  tell("queue_len of none", store.queue_len("q"));
  return 0;
}
