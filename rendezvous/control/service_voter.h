// ServiceVoter: the consensus service as the one voter of its job, in front of the coordinator: it
// joins as a witness, keeps each state in the service before it acknowledges it, and is in contact
// for as long as nobody else can lead. So the coordinator itself knows nothing of etcd.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/node/leader_io.h"
#include "rendezvous/protocol/message.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class ConsensusService;
struct ServiceView;

class ServiceVoter : public std::enable_shared_from_this<ServiceVoter> {
 public:
  /// Who steps the leader; outlives this, or stops it.
  class Handler {
   public:
    Handler() = default;
    Handler(const Handler&) = delete;
    Handler& operator=(const Handler&) = delete;
    virtual ~Handler() = default;
    virtual void on_service(LeaderInput input) = 0;
    /// It has resigned after the job's end, or could not in time.
    virtual void on_service_left() = 0;
  };

  static std::shared_ptr<ServiceVoter> create(boost::asio::io_context& io,
                                              std::shared_ptr<ConsensusService> service,
                                              std::chrono::milliseconds heartbeat_timeout,
                                              Handler& handler,
                                              std::shared_ptr<spdlog::logger> log);

  /// It joins the job, by a session of that number.
  void join(NodeId session, NodeDescription witness, JobInstance instance);
  [[nodiscard]] bool is(NodeId session) const { return session == session_; }
  /// The coordinator sends it this.
  void take(const message::Message& told);
  /// The job is over: nobody is to go on with its state. on_service_left() follows.
  void end_job();
  /// The coordinator leads no more, or is gone: calls its handler no more.
  void leave();
  [[nodiscard]] bool has_left() const { return left_; }
  ~ServiceVoter();

 private:
  struct Timers;

  ServiceVoter(boost::asio::io_context& io, std::shared_ptr<ConsensusService> service,
               std::chrono::milliseconds heartbeat_timeout, Handler& handler,
               std::shared_ptr<spdlog::logger> log);
  void write();
  void written(const Result<bool>& done);
  void tell_contact();
  void tell_trouble();
  void ask_who_leads();
  void give_way(const Result<ServiceView>& view);
  void left();

  std::shared_ptr<ConsensusService> service_;
  std::chrono::milliseconds heartbeat_timeout_;
  Handler* handler_;  ///< null: stopped
  std::shared_ptr<spdlog::logger> log_;
  NodeId session_{};
  JobInstance instance_{};
  std::unique_ptr<Timers> timers_;
  // The state as it is to be, in frames, and what of it the service has.
  std::string voter_state_;
  std::string story_;  ///< the newest since then
  std::string nodes_;  ///< all since then
  std::optional<message::StateKept> to_acknowledge_;
  bool changed_ = false;
  bool writing_ = false;
  bool ends_ = false;        ///< the newest state is the job's end
  std::string refused_why_;  ///< what people have been told of; empty: nothing
  bool in_trouble_ = false;  ///< and people have been told
  bool was_replaced_ = false;
  bool left_ = false;
};

}  // namespace ddprun
