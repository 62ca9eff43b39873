#include "agent/evidence/evidence_thread.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <ctime>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "agent/evidence/flight_dump.h"
#include "agent/evidence/memory_view.h"
#include "agent/evidence/python_layout.h"
#include "agent/evidence/python_stacks.h"
#include "agent/evidence/small_file.h"
#include "agent/evidence/thread_facts.h"
#include "agent/recorder/quiet_thread.h"
#include "agent/wire/evidence_file.h"
#include "agent/wire/file_lock.h"
#include "agent/wire/ring_file.h"
#include "agent/wire/ticks.h"

namespace strobe::agent {
namespace {

using wire::EvidenceHeader;
using wire::FlightState;

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kBeatEveryNs = 100 * kMs, kMostBetweenNs = 10'000 * kMs;
constexpr std::uint64_t kMostLookNs = 400 * kMs;        // For one look at all stacks.
constexpr std::uint64_t kFlightPatienceNs = 700 * kMs;  // Behind the second look.
constexpr unsigned long kSlackNs = 20 * kMs;  // The kernel may wake it together with others.

// One for each process that has the thread. Never deleted, because the thread uses it to the end.
struct Evidence {
  std::string directory{}, stem{};
  EvidenceHeader* header = nullptr;
  pid_t pid = 0;
  std::optional<PythonLayout> layout{};
  PythonProcess process{};
};

std::atomic<Evidence*> evidence{nullptr};

// Null if this process has none; what a forked child sees is its parent's.
Evidence* OwnEvidence() {
  Evidence* const own = evidence.load(std::memory_order_acquire);
  return own != nullptr && own->pid == getpid() ? own : nullptr;
}

void Refuse(EvidenceHeader& header, const char* why) {
  std::strncpy(header.refusal, why, wire::kRefusalBytes - 1);
}

// Where the C library keeps the calling thread's number in the kernel; see PythonProcess.
int FindTidInPthread() {
  std::array<char, 2048> own{};
  const auto tid = static_cast<std::int32_t>(syscall(SYS_gettid));
  const OwnMemory memory;
  if (!memory.Read(static_cast<std::uint64_t>(pthread_self()), own.data(), own.size())) return -1;
  for (std::size_t at = 0; at + sizeof tid <= own.size(); at += sizeof tid) {
    if (std::memcmp(own.data() + at, &tid, sizeof tid) == 0) return static_cast<int>(at);
  }
  return -1;
}

// Looks symbols up, which takes the dynamic linker's lock: at the start, and never on an order.
const char* FindInterpreter(Evidence& made, int minor) {
  const auto address = [](const char* name) {
    return reinterpret_cast<std::uint64_t>(dlsym(RTLD_DEFAULT, name));
  };
  made.process = {.runtime = address("_PyRuntime"),
                  .code_type = address("PyCode_Type"),
                  .tid_in_pthread = FindTidInPthread(),
                  .pid = static_cast<std::uint64_t>(getpid())};
  if (made.process.runtime == 0 || made.process.code_type == 0)
    return "the interpreter's symbols are not visible";
  made.layout = LayoutOf(OwnMemory(), made.process.runtime, minor);
  return made.layout ? "its own stack was not read yet" : "this version of Python is not known";
}

// The mapping keeps the lock for as long as the process lives, also if it closes all descriptors. A
// forked child does not have the mapping, and with it the lock.
EvidenceHeader* MapFile(const std::string& path) {
  unlink(path.c_str());  // A process keeps its number through exec.
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0660);
  if (file < 0) return nullptr;
  fchmod(file, 0666);  // The sidecar usually runs as another user.
  void* memory = MAP_FAILED;
  if (wire::FileMayHave(wire::kEvidenceBytes) &&
      posix_fallocate(file, 0, static_cast<off_t>(wire::kEvidenceBytes)) == 0 &&
      wire::TryLockByte(file, F_WRLCK, wire::kEvidenceLifeByte))
    memory = mmap(nullptr, wire::kEvidenceBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const bool usable =
      memory != MAP_FAILED && madvise(memory, wire::kEvidenceBytes, MADV_DONTFORK) == 0;
  if (!usable && memory != MAP_FAILED) munmap(memory, wire::kEvidenceBytes);
  if (!usable) unlink(path.c_str());
  close(file);
  return usable ? new (memory) EvidenceHeader{} : nullptr;
}

void BeatUntil(EvidenceHeader& header, std::uint64_t until_ns) {
  for (std::uint64_t now = wire::MonotonicNs();; now = wire::MonotonicNs()) {
    header.beat_ns.store(now, std::memory_order_relaxed);
    if (now >= until_ns) return;
    const std::uint64_t left = std::min(until_ns - now, kBeatEveryNs);
    const timespec pause{0, static_cast<long>(left)};
    nanosleep(&pause, nullptr);
  }
}

void WriteStacks(const Evidence& own, const char* look) {
  if (!own.layout || own.header->has_stacks.load(std::memory_order_acquire) == 0) return;
  const std::uint64_t until = wire::MonotonicNs() + kMostLookNs;
  timespec looked_at{};
  clock_gettime(CLOCK_REALTIME, &looked_at);
  const OwnMemory memory;
  StackReader reader(memory, *own.layout, own.process);
  const PythonStacks stacks =
      reader.Read(&AsleepText, [until] { return wire::MonotonicNs() > until; });
  if (stacks.threads.empty()) return;  // The interpreter has ended.
  WriteSmallFile(own.directory, own.stem + look + ".stacks",
                 StacksText(stacks, own.layout->minor,
                            looked_at.tv_sec * 1'000'000'000 + looked_at.tv_nsec, &FactsOf));
}

void Look(const Evidence& own, std::uint32_t wants, const char* look) {
  const bool asks_recorder = (wants & wire::kWantCollectives) != 0 &&
                             own.header->has_groups.load(std::memory_order_relaxed) != 0 &&
                             own.header->ended_ns.load(std::memory_order_relaxed) == 0;
  if (asks_recorder) BeginFlightDump(own.directory, own.stem + look + ".fr");
  if ((wants & wire::kWantStacks) != 0) WriteStacks(own, look);
}

void AnswerOrder(const Evidence& own) {
  EvidenceHeader& header = *own.header;
  const std::uint32_t wants = header.wants.load(std::memory_order_relaxed);
  const std::uint64_t between =
      std::min(header.between_ns.load(std::memory_order_relaxed), kMostBetweenNs);
  for (const char* name : {".a.stacks", ".b.stacks", ".a.fr", ".b.fr"})
    unlink((own.directory + "/" + own.stem + name).c_str());
  const std::uint64_t began = wire::MonotonicNs();
  Look(own, wants, ".a");
  BeatUntil(header, began + between);
  Look(own, wants, ".b");
  for (int i = 0; i < 7 && FlightDumpState() == FlightState::kRunning; ++i)
    BeatUntil(header, wire::MonotonicNs() + kFlightPatienceNs / 7);
  header.flight.store(static_cast<std::uint32_t>(FlightDumpState()), std::memory_order_relaxed);
}

void* RunEvidence(void* argument) {
  const Evidence& own = *static_cast<const Evidence*>(argument);
  EvidenceHeader& header = *own.header;
  prctl(PR_SET_TIMERSLACK, kSlackNs, 0, 0, 0);
  for (;;) {
    BeatUntil(header, wire::MonotonicNs() + kBeatEveryNs);
    const std::uint64_t order = header.order.load(std::memory_order_acquire);
    if (order == 0 || order == header.answered.load(std::memory_order_relaxed)) continue;
    try {
      AnswerOrder(own);
    } catch (...) {  // No memory is left. The sidecar then finds no files.
    }
    header.answered.store(order, std::memory_order_release);
  }
}

}  // namespace

const char* StartEvidence(const char* directory, const char* stem, int minor) {
  if (OwnEvidence() != nullptr) return nullptr;
  ForgetFlightDump();
  auto* const made = new (std::nothrow) Evidence;
  if (made == nullptr) return "no memory is left";
  made->directory = directory;
  made->stem = stem;
  made->pid = getpid();
  const std::string path = made->directory + "/" + made->stem + ".evidence";
  EvidenceHeader* const header = MapFile(path);
  if (header == nullptr) {
    delete made;
    return "its file could not be made";
  }
  made->header = header;
  header->version = wire::kEvidenceVersion;
  header->pid = static_cast<std::uint32_t>(made->pid);
  header->began = wire::ProcessBegan();
  header->rank = header->local_rank = header->world_size = -1;
  Refuse(*header, FindInterpreter(*made, minor));
  header->beat_ns.store(wire::MonotonicNs(), std::memory_order_relaxed);
  // A sidecar that sees this word sees all that was written before it.
  std::atomic_ref<std::uint64_t>(header->magic)
      .store(wire::kEvidenceMagic, std::memory_order_release);
  if (StartQuietThread("strobe-evidence", &RunEvidence, made)) {
    evidence.store(made, std::memory_order_release);
    return nullptr;
  }
  // Without a beat, the process would look like one that is stopped.
  munmap(header, wire::kEvidenceBytes);
  unlink(path.c_str());
  delete made;
  return "no thread could be started";
}

const char* CheckStacks(const char* function) {
  Evidence* const own = OwnEvidence();
  if (own == nullptr) return "there is no thread for it";
  if (!own->layout) return "this version of Python is not known";
  const OwnMemory memory;
  StackReader reader(memory, *own->layout, own->process);
  const PythonThread read = reader.ReadThread(static_cast<std::uint64_t>(syscall(SYS_gettid)));
  const char* why = nullptr;
  if (read.frames.empty())
    why = "its own stack could not be read";
  else if (!std::string_view(read.frames.front().name).ends_with(function) ||
           read.frames.front().line <= 0)
    why = "its own stack was read wrongly";
  else if (!read.holds_gil)
    why = "the holder of the interpreter's lock was read wrongly";
  Refuse(*own->header, why == nullptr ? "" : why);
  if (why == nullptr) own->header->has_stacks.store(1, std::memory_order_release);
  return why;
}

void TellPosition(const JobPosition& place) {
  Evidence* const own = OwnEvidence();
  if (own == nullptr) return;
  own->header->rank.store(place.rank, std::memory_order_relaxed);
  own->header->local_rank.store(place.local_rank, std::memory_order_relaxed);
  own->header->world_size.store(place.world_size, std::memory_order_relaxed);
  own->header->has_groups.store(place.has_groups ? 1 : 0, std::memory_order_relaxed);
}

void EndEvidence() {
  Evidence* const own = OwnEvidence();
  if (own != nullptr) own->header->ended_ns.store(wire::MonotonicNs(), std::memory_order_relaxed);
}

}  // namespace strobe::agent
