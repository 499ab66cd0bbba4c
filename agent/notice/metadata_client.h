// MetadataClient: asks one HTTP server, one question at a time, over a connection that is kept
// open. Nothing blocks, time and size are bounded, and no proxy is used: a metadata service answers
// this machine alone. Lives on the agent's loop, and is destroyed after that has stopped.
#pragma once

#include <functional>
#include <memory>

#include "agent/notice/metadata_service.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/result.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class MetadataClient {
 public:
  using OnAnswer = std::function<void(const Result<MetadataAnswer>& answer)>;

  MetadataClient(boost::asio::io_context& io, Endpoint server);
  ~MetadataClient();
  MetadataClient(const MetadataClient&) = delete;
  MetadataClient& operator=(const MetadataClient&) = delete;

  /// One call each time, on the loop and not from within. A server may have closed a connection
  /// that was idle: then the question is asked once more over a new one. The error is a name that
  /// is not resolved, a connection that is refused, silence, or an answer that is no HTTP or has
  /// more than 64 KiB.
  void ask(const MetadataRequest& question, OnAnswer on_answer);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
