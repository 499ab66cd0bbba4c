// ServiceVoter: the consensus service as the one voter of its job, in front of the coordinator: it
// joins as a witness, keeps each state in the service before it acknowledges it (ServiceWriter),
// and is in contact for as long as nobody else can lead (ServiceContact). This is their thin shell.
// So the coordinator itself knows nothing of the service.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/membership/node_description.h"
#include "rendezvous/node/service_contact.h"
#include "rendezvous/node/service_writer.h"
#include "rendezvous/protocol/message.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class ConsensusService;

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
  void join(NodeId session, NodeDescription witness);
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
  void carry_out(ServiceVoterActions actions);
  void carry_out(TellLeader order);
  void carry_out(const AskWhoLeads& order);
  void carry_out(const CommitState& order);
  void carry_out(const LookAtContact& order) { look(order); }
  void carry_out(const LogLine& order);
  void look(LookAtContact order);
  void arm();
  void left(bool is_known);

  std::shared_ptr<ConsensusService> service_;
  std::chrono::milliseconds heartbeat_timeout_;
  Handler* handler_;  ///< null: stopped
  std::shared_ptr<spdlog::logger> log_;
  NodeId session_{};
  std::optional<ServiceContact> contact_;  ///< none: it has not joined
  std::optional<ServiceWriter> writer_;
  std::unique_ptr<Timers> timers_;
  bool ends_ = false;  ///< the job is over
  bool left_ = false;
};

}  // namespace ddprun
