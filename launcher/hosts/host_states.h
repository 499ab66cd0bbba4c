// HostStates: what has become of each host's agent, and what follows for the job: whether the
// others can go on, and the one exit code. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun {

class HostStates {
 public:
  /// `least`: the hosts without which the job cannot go on (MIN of --nnodes), 1 to `hosts`.
  HostStates(int hosts, int least);

  /// The first word about a host counts.
  void ended(std::uint32_t host, int code);
  void lost(std::uint32_t host);
  /// Those that run are ended from here: what becomes of them says nothing of the job.
  void dismiss_running();

  [[nodiscard]] bool is_settled(std::uint32_t host) const;
  [[nodiscard]] bool all_settled() const { return running_ == 0; }
  /// So few hosts are left, running or at a good end, that the job cannot reach one.
  [[nodiscard]] bool is_hopeless() const;
  /// The job was preempted (75), or some host has ended well and too few run to be a job: those are
  /// about to end, or wait for nodes that nobody starts.
  [[nodiscard]] bool is_stranded() const;
  /// So it is, and enough hosts for the job have ended well.
  [[nodiscard]] bool is_over() const;
  /// Some agent has ended in failure by itself: those of the others end now, too.
  [[nodiscard]] bool has_failed() const;

  /// The job's code, where all agents ended with it. Else: that of the first host whose code is
  /// neither 0 nor 75; 1 where too few have ended well; 75 where any agent did; 0. Hosts that are
  /// lost, or whose agent was killed, do not count where enough others have ended well; dismissed
  /// ones never do, and are not missed where another's agent ended with 75.
  [[nodiscard]] int exit_code() const;

 private:
  struct Host {
    std::optional<int> code;
    bool lost = false;
    bool dismissed = false;
  };
  [[nodiscard]] int ended_well() const;

  std::vector<Host> hosts_;
  int least_;
  int running_;
};

}  // namespace ddprun
