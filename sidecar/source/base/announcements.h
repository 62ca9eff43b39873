// Processes that announced their framework: the files *.process that strobe._inproc of the Python
// package writes into the agent directory. The files come from the trainer, which may be hostile.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "sidecar/source/base/process_ranks.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::source {

// Equal for the announcement and the ring file of one process: "<pid>-<began>". Only the low half
// of `began` counts, because ring files have no more; machines need more after 497 days.
std::string ProcessName(std::uint32_t pid, std::uint64_t began);

// What a process does in its container, as far as the announcements tell.
enum class Role {
  kWorker,  // It joined a process group, told a step, or has a rank in the job of its own.
  // It did nothing of this, and no other process of its container joined a group or told a step.
  kUnclear,
  // It did nothing of this, but others of its container did, such as beside the front end of a
  // server. Whatever becomes of it is no fault of the capture.
  kCompanion,
};

struct Announcement {
  std::string container{};  // The process's container; empty if it is not known.
  std::uint32_t pid = 0;    // In the process's own PID namespace.
  std::uint32_t parent_pid = 0;
  std::uint64_t began = 0;  // When the process began, in the kernel's ticks since boot.
  std::string framework{};  // "torch", "jax" or "tensorflow".
  std::string version{};
  std::string program{};
  std::string title{};  // Its own name, if it has given itself or was given one.
  std::optional<std::uint32_t> rank{}, local_rank{}, world_size{};
  // How many processes its launcher started in its container, as that told it.
  std::optional<std::uint32_t> local_world_size{};
  bool joined = false;  // Its framework has told the rank. Otherwise it is that of the environment.
  std::string address{};  // host:port of its profiler server on the loopback; empty if it has none.
  std::string socket{};   // The name, in the agent directory, of the socket that takes requests.
  std::string steps{};    // The name of the file that tells its steps; empty if there is none.
  std::string note{};     // What its recording needs or costs; empty if that is nothing special.
  // An inference server's engine, or empty: what it is, such as "vllm 0.32.0"; the name of the file
  // that tells its iterations and queue; and what of it is not told.
  std::string engine{}, engine_file{}, engine_note{};
  // What it does in its service or job, such as "prefill" or "rollout", and what says so.
  std::string job_role{}, job_role_from{};
  bool schedules = false;  // It plans the iterations of an engine.
  // The socket by which its Kineto asks a daemon, as KinetoClient::socket; empty if not known.
  std::string kineto{};
  bool asks_kineto = true;  // Its Kineto asks a daemon, as far as is known.
  // It refuses every capture over `socket`, because its framework's version cannot be recorded so,
  // and Kineto's daemon may record it instead.
  bool refuses = false;
  // The agent may record its devices beside Kineto, which has not recorded yet, and gets them as
  // soon as the program wants to profile itself.
  bool yields_cupti = false;
  std::vector<std::uint16_t> listens{};  // TCP ports on which the process listens.
  bool stepped = false;                  // It has told a training step.
  // It holds a second lock on its announcement, which a forked child does not inherit.
  bool process_lock = false;
  bool trains = true;  // False for launchers and for workers of data loaders.
  // Why it does not train, human-readable. Empty for commands that are known to train nothing.
  std::string why_not{};
  Role role = Role::kWorker;
  // Stands for its local rank, because other workers tell equal ranks; see NumberWorkers.
  std::optional<std::uint32_t> number{};
  bool beside = false;  // Another framework of the same process announced itself too.

  // "<title or program> <pid>"; with the framework if there are several.
  std::string label() const;
  std::string process() const { return ProcessName(pid, began); }
  Rank job_rank() const;
  // `told` by the process later, with its number.
  Rank Numbered(Rank told) const;
};

// The places of processes by their names; see Announcement::process.
using AnnouncedRanks = std::map<std::string, Rank>;
// The places that the processes announced. Pure.
AnnouncedRanks PlacesOf(const std::vector<Announcement>& processes);
// The place of the program that wrote a ring file: what its process announced, which its framework
// may have told, or else that of the environment. Pure.
Rank PlaceIn(const wire::FileHeader& header, const AnnouncedRanks& announced);

// Whether a process may use this name for a file in the agent directory. Hidden files are
// unfinished and therefore excluded. Pure.
bool IsFileName(std::string_view name);
// Whether `address`, host:port, is a port of this machine on which the process listens. Pure.
bool ListensOn(const Announcement& process, std::string_view address);

// Whether the agent records the process, although it announced PyTorch's profiler: only kernels are
// wanted, which cost the program less through the agent. Pure.
bool LeftToAgent(const v1::CapturePlan& plan, const Announcement& process);

// The announcements that a capture with this plan records over their sockets. Pure.
std::vector<Announcement> InprocTargets(const v1::CapturePlan& plan, std::vector<Announcement> all);

// InvalidArgument says what is wrong. `name` is the file's name. Pure.
absl::StatusOr<Announcement> ParseAnnouncement(std::string_view name, std::string_view json);

// The announcements of processes that run, those that train first, at most kMaxAnnouncements: a pod
// of 64 processes with two frameworks each. Removes those of processes that were killed, with what
// these left behind.
inline constexpr std::size_t kMaxAnnouncements = 128;
std::vector<Announcement> ReadAnnouncements(const std::string& directory);

}  // namespace strobe::source
