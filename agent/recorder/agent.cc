// libstrobe_agent.so records the annotations of the program that loads it, and the activity of its
// GPUs, into rings that a sidecar reads. Because it runs in other people's programs, it uses only
// POSIX and the C++ standard library, throws nothing, prints nothing, and runs a permanent thread
// only if CUDA is used. Its failures never affect the program.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "agent/recorder/attend_thread.h"
#include "agent/recorder/device_thread.h"
#include "agent/recorder/directory_files.h"
#include "agent/recorder/disabled.h"
#include "agent/recorder/own_file.h"
#include "agent/recorder/python_start.h"
#include "agent/sdk/strobe/agent_api.h"
#include "agent/wire/ring_file.h"
#include "agent/wire/ring_writer.h"
#include "agent/wire/step_marks.h"
#include "agent/wire/ticks.h"

namespace strobe {
namespace {

using wire::RingFile;
using wire::RingFileShape;
using wire::RingHeader;
using wire::RingWriter;

struct OwnRing {
  std::uint32_t index;
  RingHeader* header;
  RingWriter writer;
};

// "initial-exec" places these few bytes in static TLS, so that access is one instruction even if
// the library was loaded late.
thread_local OwnRing* own_ring __attribute__((tls_model("initial-exec"))) = nullptr;
// The thread does not ask for a ring before this time (CLOCK_MONOTONIC in ns).
thread_local std::uint64_t refused_until __attribute__((tls_model("initial-exec"))) = 0;
constexpr std::uint64_t kForGood = ~0ull;
// On a full volume, asking for a ring costs more than losing a record, so a thread asks at most
// every 100 ms.
constexpr std::uint64_t kAskAgainNs = 100'000'000;

std::uint32_t EnvironmentNumber(const char* name, std::uint32_t otherwise) {
  const char* text = std::getenv(name);
  const long number = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return number > 0 && number < 1 << 24 ? static_cast<std::uint32_t>(number) : otherwise;
}

// Creates the ring file, with smaller rings if the usual ones do not fit. The address space and the
// size of files may be limited (RLIMIT_AS, RLIMIT_FSIZE).
RingFile::Created CreateSomeSize(const std::string& directory, RingFileShape shape,
                                 std::string_view forked_from) {
  RingFile::Created created = RingFile::Create(directory, shape, forked_from);
  for (const std::uint32_t rings : {64u, 8u}) {
    if (created.file || (created.step != wire::FailureStep::kMap && created.error != EFBIG)) break;
    shape.max_rings = rings;
    shape.ring_words = std::min<std::uint64_t>(shape.ring_words, 1u << 14);
    shape.device_words = std::min<std::uint64_t>(shape.device_words, 1u << 18);
    created = RingFile::Create(directory, shape, forked_from);
  }
  return created;
}

class Agent {
 public:
  Agent() {
    if (const char* dir = std::getenv("STROBE_DIR"); dir != nullptr && *dir != '\0') {
      directory_ = std::string(dir) + "/agent";
      shape_.ring_words = EnvironmentNumber("STROBE_RING_KB", 512) * 128ull;
      // chmod makes the directory writable for all users of the pod, whatever the umask is. It is
      // sticky, so that nobody removes or replaces what others put there.
      if (mkdir(directory_.c_str(), 0777) == 0) chmod(directory_.c_str(), 01777);
      if (const int error = pthread_key_create(&at_thread_end_, &Agent::LeaveRing); error != 0)
        agent::LogFailure(directory_, wire::FailureStep::kThreadKey, error);
      else
        file_ = CreateFirst();
    }
    const bool usable{file_};
    api_ = {1,
            sizeof(strobe_agent_api),
            usable ? reinterpret_cast<const std::uint32_t*>(&file_.header()->control) : &kOff,
            BestClock(),
            &Agent::RecordScope,
            usable ? reinterpret_cast<const std::uint32_t*>(&file_.header()->filter) : &kOff,
            &Agent::NameThread,
            &Agent::BeginStep,
            &Agent::EndStep};
    if (usable) header_ = file_.header();
  }

  const strobe_agent_api* api() const { return &api_; }

  // Called when CUDA's driver was initialized in this process.
  void CudaIsThere() {
    if (!file_) return;
    BecomeOwnProgram();
    wire::FileHeader& header = *file_.header();
    std::uint64_t never = 0;
    header.cuda_since_ns.compare_exchange_strong(never, wire::MonotonicNs());
    header.uses_cuda.store(1, std::memory_order_relaxed);
    agent::StartDeviceThread(file_, &Agent::LookForCuda);
  }

  // See agent::OwnRingPath.
  std::string OwnPath() {
    if (!file_) return {};
    BecomeOwnProgram();
    // A child that could not make one has no file, only memory.
    const bool own = file_.header()->pid == static_cast<std::uint32_t>(getpid());
    return own ? file_.path() : std::string();
  }

  // For a forked child, where only the forking thread exists. The child uses its parent's file
  // until it records something, so that the many children that never record leave no file behind.
  void AfterFork() {
    own_ring = nullptr;  // Not deleted: the ring belongs to the parent. This leaks a few bytes.
    refused_until = 0;
    new (&beginning_) std::mutex;  // Another thread may have held the mutex during the fork.
    agent::ForgetDeviceThread();
    agent::ForgetPythonThread();
    agent::ForgetAttendance();
    agent::ForgetFailure();
    agent::ForgetCollectives();
    if (!file_) return;
    // The end of this thread must not release the ring, which the parent's thread still uses.
    pthread_setspecific(at_thread_end_, nullptr);
    // CUDA does not survive a fork once it was initialized. If the child initializes it again,
    // CUDA's driver calls InitializeInjection.
    parent_used_cuda_ = parent_used_cuda_ || file_.header()->uses_cuda.load() != 0;
    looks_at_parent_ = file_.Inherit();
    if (looks_at_parent_) return;
    const int error = errno;
    file_.ReplaceBy({});
    agent::LogFailure(directory_, wire::FailureStep::kCreate, error);
  }

  // For the program's exit. Annotations by later exit handlers are still recorded.
  void End() {
    if (!file_ || looks_at_parent_) return;
    file_.header()->ended_ns.store(wire::MonotonicNs(), std::memory_order_relaxed);
    file_.header()->has_exited.store(1, std::memory_order_release);
  }

 private:
  static inline const std::uint32_t kOff = 0;
  // The header of the ring file; null without one. The address stays valid when a forked child
  // replaces its parent's file.
  static inline wire::FileHeader* header_ = nullptr;

  static std::uint64_t (*BestClock())() {
    return wire::BestTicks() == wire::TickKind::kCycles ? &wire::Cycles : &wire::MonotonicNs;
  }

  static OwnRing* FirstRing();
  static OwnRing* MakeRoom(OwnRing* ring);
  static OwnRing* MakeRoomFor(OwnRing* ring, std::size_t size);
  static void RecordScope(int level, std::uint64_t begin, std::uint64_t end, const char* text,
                          std::size_t size);
  static void NameThread(const char* text, std::size_t size);
  static std::uint64_t BeginStep(const char* loop, std::size_t size, std::int64_t number);
  static void EndStep(std::uint64_t step);
  static void LookForCuda();
  static void LeaveRing(void* ring);

  RingFile CreateFirst() {
    RingFile::Created created = CreateSomeSize(directory_, shape_, {});
    if (created.file) {
      const wire::Orders before = agent::ReadOrders(directory_);
      agent::Obey(before, created.file);
      if (created.file.Publish()) {
        // A sidecar changes the orders before it looks for files. If it has not seen this file, the
        // change is visible here.
        const wire::Orders now = agent::ReadOrders(directory_);
        if (std::memcmp(&before, &now, sizeof now) != 0) agent::Obey(now, created.file);
        return std::move(created.file);
      }
      created = {.file = {}, .step = wire::FailureStep::kPublish, .error = errno};
    }
    agent::LogFailure(directory_, created.step, created.error);
    return {};
  }

  // Gives a forked child a file of its own, at the address of the parent's, before it writes
  // anything. Two writers in one ring would destroy each other's records.
  void BecomeOwnProgram() {
    if (!looks_at_parent_) return;
    std::lock_guard<std::mutex> lock(beginning_);
    if (!looks_at_parent_) return;
    // It must have the same size, because it is mapped at the address of the parent's file.
    RingFile::Created created = RingFile::Create(directory_,
                                                 {.max_rings = file_.max_rings(),
                                                  .ring_words = file_.ring_words(),
                                                  .device_words = file_.device_words()},
                                                 file_.name());
    if (created.file) {
      CopyWishes(file_, created.file);
      if (created.file.Publish())
        CopyWishes(file_, created.file);  // Repeated for changes since then, as in CreateFirst.
      else
        created = {.file = {}, .step = wire::FailureStep::kPublish, .error = errno};
    }
    if (!created.file) agent::LogFailure(directory_, created.step, created.error);
    file_.ReplaceBy(std::move(created.file));
    looks_at_parent_ = false;
  }

  static void CopyWishes(const RingFile& from, const RingFile& to) {
    const wire::FileHeader& parent = *from.header();
    to.header()->filter = parent.filter.load();
    to.header()->attend_until = parent.attend_until.load();
    for (std::size_t i = 0; i < wire::kWishers; ++i)
      to.Wish(static_cast<wire::Wisher>(i), parent.wishes[i].load());
  }

  OwnRing* TakeRing() {
    if (!file_ || (refused_until != 0 && wire::MonotonicNs() < refused_until)) return Refuse();
    BecomeOwnProgram();
    wire::FileHeader& header = *file_.header();
    for (;;) {
      // Prefers a ring that another thread has released.
      const std::uint32_t begun = std::min(header.rings.load(), file_.max_rings());
      for (std::uint32_t i = 0; i < begun; ++i) {
        std::uint32_t idle = 0;
        if (file_.ring(i)->busy.compare_exchange_strong(idle, 1)) return Own(i);
      }
      // There is no lock: threads that start at the same time reserve the same ring, and one of
      // them gets it.
      std::uint32_t next = begun;
      if (next >= file_.max_rings() || !file_.Reserve(next, wire::kReserveWords)) {
        refused_until = wire::MonotonicNs() + kAskAgainNs;
        return Refuse();
      }
      RingHeader& ring = *file_.ring(next);
      const std::uint64_t reserved =
          std::min<std::uint64_t>(wire::kReserveWords, file_.ring_words());
      std::uint64_t none = 0;
      ring.reserved_words.compare_exchange_strong(none, reserved);
      header.rings.compare_exchange_strong(next, next + 1);
    }
  }

  // Counts a record that is lost because the thread has no ring.
  OwnRing* Refuse() {
    if (!file_ || looks_at_parent_) return nullptr;
    const auto stripe = static_cast<std::size_t>(syscall(SYS_gettid)) % wire::kStripes;
    file_.header()->without_ring[stripe].value.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }

  OwnRing* Own(std::uint32_t index) {
    RingHeader* const header = file_.ring(index);
    own_ring = new (std::nothrow)
        OwnRing{index, header, RingWriter(header, file_.data(index), file_.ring_words())};
    if (own_ring == nullptr || pthread_setspecific(at_thread_end_, own_ring) != 0) {
      delete std::exchange(own_ring, nullptr);
      header->busy.store(0, std::memory_order_release);
      return Refuse();
    }
    own_ring->writer.SpaceReserved(header->reserved_words.load(std::memory_order_relaxed));
    char name[wire::kThreadNameBytes] = {};  // prctl writes 16 bytes.
    prctl(PR_GET_NAME, name);
    if (own_ring->writer.SpaceIsShort() && MakeRoom(own_ring) == nullptr) {
      pthread_setspecific(at_thread_end_, nullptr);
      delete std::exchange(own_ring, nullptr);
      header->busy.store(0, std::memory_order_release);
      return nullptr;
    }
    own_ring->writer.Thread(static_cast<std::uint32_t>(syscall(SYS_gettid)), name);
    return own_ring;
  }

  // Reserves the next 64 KiB of the thread's ring. False if the volume is full.
  bool Extend(OwnRing& ring) {
    const std::uint64_t wanted =
        ring.header->reserved_words.load(std::memory_order_relaxed) + wire::kReserveWords;
    if (!file_.Reserve(ring.index, wanted)) return false;
    ring.header->reserved_words.store(std::min(wanted, file_.ring_words()),
                                      std::memory_order_relaxed);
    ring.writer.SpaceReserved(std::min(wanted, file_.ring_words()));
    return true;
  }

  std::string directory_;
  RingFileShape shape_;
  RingFile file_;
  strobe_agent_api api_{};
  pthread_key_t at_thread_end_{};
  std::mutex beginning_;
  std::atomic<bool> looks_at_parent_{false};
  bool parent_used_cuda_ = false;
};

// Never destroyed, because threads may annotate while the program ends.
Agent& TheAgent() {
  static Agent& agent = *[] {
    auto* made = new Agent;
    pthread_atfork(nullptr, nullptr, [] { TheAgent().AfterFork(); });
    std::atexit([] { TheAgent().End(); });
    return made;
  }();
  return agent;
}

// Not inlined, so that the common path saves no registers for these calls.
[[gnu::noinline, gnu::cold]] OwnRing* Agent::FirstRing() { return TheAgent().TakeRing(); }

[[gnu::noinline, gnu::cold]] OwnRing* Agent::MakeRoom(OwnRing* ring) {
  // On a full volume, asking the kernel costs more than losing a record, so only every 256th record
  // asks.
  constexpr std::uint64_t kAskAgainEvery = 256;
  const std::uint64_t dropped = ring->header->dropped.load(std::memory_order_relaxed);
  if (dropped % kAskAgainEvery == 0 && TheAgent().Extend(*ring)) return ring;
  ring->header->dropped.store(dropped + 1, std::memory_order_relaxed);
  return nullptr;
}

// Makes room for a text that needs more than one record.
[[gnu::noinline, gnu::cold]] OwnRing* Agent::MakeRoomFor(OwnRing* ring, std::size_t size) {
  while (ring != nullptr && ring->writer.SpaceIsShort(size)) ring = MakeRoom(ring);
  return ring;
}

void Agent::LeaveRing(void* argument) {
  auto* ring = static_cast<OwnRing*>(argument);
  ring->header->busy.store(0, std::memory_order_release);
  own_ring = nullptr;
  // Annotations by later destructors of this thread are counted, not recorded.
  refused_until = kForGood;
  delete ring;
}

// Finds CUDA in programs whose CUDA driver does not load the agent. dlopen may block while another
// thread loads a library, so only the agent's own threads call this.
void Agent::LookForCuda() {
  Agent& agent = TheAgent();
  if (!agent.parent_used_cuda_ && dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr)
    agent.CudaIsThere();
}

void Agent::NameThread(const char* text, std::size_t size) {
  OwnRing* ring = own_ring == nullptr ? FirstRing() : own_ring;
  if (ring == nullptr || (ring->writer.SpaceIsShort() && MakeRoom(ring) == nullptr)) return;
  char name[wire::kThreadNameBytes] = {};
  std::memcpy(name, text, wire::WholeCharacters({text, size}, sizeof name));
  ring->writer.Thread(static_cast<std::uint32_t>(syscall(SYS_gettid)), name);
}

// A forked child tells its steps once it has a file of its own.
std::uint64_t Agent::BeginStep(const char* loop, std::size_t size, std::int64_t number) {
  if (header_ == nullptr || TheAgent().looks_at_parent_.load(std::memory_order_relaxed)) return 0;
  return wire::BeginStep(*header_, {loop, size}, number, wire::MonotonicNs());
}

void Agent::EndStep(std::uint64_t step) {
  if (header_ == nullptr || TheAgent().looks_at_parent_.load(std::memory_order_relaxed)) return;
  wire::EndStep(*header_, step, wire::MonotonicNs());
}

void Agent::RecordScope(int level, std::uint64_t begin, std::uint64_t end, const char* text,
                        std::size_t size) {
  OwnRing* ring = own_ring;
  if (__builtin_expect(ring == nullptr, 0)) ring = FirstRing();
  if (ring == nullptr) return;
  if (__builtin_expect(ring->writer.SpaceIsShort(), 0) && MakeRoom(ring) == nullptr) return;
  if (__builtin_expect(size > wire::kMaxTextBytes, 0) && MakeRoomFor(ring, size) == nullptr) return;
  ring->writer.Scope(static_cast<std::uint8_t>(level), begin, end, {text, size});
  if (__builtin_expect(agent::AttendanceIsAsked(*header_), 0))
    agent::Attend(TheAgent().file_, &Agent::LookForCuda);
}

}  // namespace

namespace agent {

std::string OwnRingPath() { return TheAgent().OwnPath(); }

}  // namespace agent
}  // namespace strobe

extern "C" __attribute__((visibility("default"))) const strobe_agent_api* strobe_agent_api_v1() {
  return strobe::TheAgent().api();
}

// CUDA's driver calls this in cuInit if $CUDA_INJECTION64_PATH names this library.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  if (strobe::agent::IsDisabled("agent")) return 1;
  strobe::TheAgent().CudaIsThere();
  strobe::agent::StartPythonThread();
  return 1;
}

// The Python package calls it before PyTorch's profiler records.
extern "C" __attribute__((visibility("default"))) void strobe_agent_leave_devices() {
  strobe::agent::LeaveDevicesToKineto();
}
