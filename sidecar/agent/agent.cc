// libstrobe_agent.so: records the annotations of the program that loaded it, and what its GPUs do,
// into rings that a sidecar reads. Loaded into other people's programs, so: the C++ standard
// library and POSIX only, no exceptions, no output, no lasting thread unless CUDA is there, and no
// error that the program would notice.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <new>
#include <optional>
#include <string>

#include "sidecar/agent/device_thread.h"
#include "sidecar/agent/memory_thread.h"
#include "sidecar/sdk/strobe/agent_api.h"
#include "sidecar/wire/ring_file.h"
#include "sidecar/wire/ring_writer.h"
#include "sidecar/wire/ticks.h"

namespace strobe {
namespace {

using wire::RingFile;
using wire::RingHeader;
using wire::RingWriter;

struct OwnRing {
  RingHeader* header;
  RingWriter writer;
};

// A few bytes of static TLS, so that reaching them is one instruction also in a library that was
// loaded late.
thread_local OwnRing* own_ring __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local bool refused __attribute__((tls_model("initial-exec"))) = false;

std::uint32_t EnvironmentNumber(const char* name, std::uint32_t otherwise) {
  const char* text = std::getenv(name);
  const long number = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  return number > 0 && number < 1 << 24 ? static_cast<std::uint32_t>(number) : otherwise;
}

class Agent {
 public:
  Agent() {
    if (const char* dir = std::getenv("STROBE_DIR"); dir != nullptr && *dir != '\0') {
      directory_ = std::string(dir) + "/agent";
      shape_.ring_words = EnvironmentNumber("STROBE_RING_KB", 512) * 128ull;
      mkdir(directory_.c_str(), 0777);
      file_ = RingFile::Create(directory_, shape_);
    }
    const bool usable{file_};
    api_ = {1,
            sizeof(strobe_agent_api),
            usable ? reinterpret_cast<const std::uint32_t*>(&file_.header()->control) : &kOff,
            BestClock(),
            &Agent::RecordScope,
            usable ? reinterpret_cast<const std::uint32_t*>(&file_.header()->filter) : &kOff};
    if (!usable) return;
    header_ = file_.header();
    pthread_key_create(&at_exit_, [](void* ring) { Leave(static_cast<OwnRing*>(ring)); });
  }

  const strobe_agent_api* api() const { return &api_; }

  // CUDA's driver has been started in this process.
  void CudaIsThere() {
    if (!file_) return;
    file_.header()->uses_cuda.store(1, std::memory_order_relaxed);
    agent::StartDeviceThread(file_);
  }

  // In the child, where only the forking thread is left. It gets a file of its own in the place of
  // its parent's, because two writers in one ring would destroy each other's records.
  void AfterFork() {
    own_ring = nullptr;  // Its memory belongs to the parent's ring; a few bytes are left behind.
    refused = false;
    new (&beginning_) std::mutex;  // Another thread may have held it.
    agent::ForgetDeviceThread();
    agent::ForgetMemoryThread();
    if (file_) file_.ReplaceBy(RingFile::Create(directory_, shape_));
  }

 private:
  static inline const std::uint32_t kOff = 0;
  // Set where there are rings; a fork puts the child's in the place of its parent's.
  static inline wire::FileHeader* header_ = nullptr;

  static std::uint64_t (*BestClock())() {
    return wire::BestTicks() == wire::TickKind::kCycles ? &wire::Cycles : &wire::MonotonicNs;
  }

  static OwnRing* FirstRing();
  static void RecordScope(int level, std::uint64_t begin, std::uint64_t end, const char* text,
                          std::size_t size);

  OwnRing* TakeRing() {
    if (!file_ || refused) return Refuse();
    // A program that CUDA was not told to load us into: the first record of a capture is the time
    // to look.
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr) CudaIsThere();
    // One that a thread left behind, else a fresh one.
    const std::uint32_t begun =
        std::min(file_.header()->rings.load(std::memory_order_relaxed), file_.most_rings());
    for (std::uint32_t i = 0; i < begun; ++i) {
      std::uint32_t idle = 0;
      if (file_.ring(i)->busy.compare_exchange_strong(idle, 1)) return Own(i);
    }
    std::lock_guard<std::mutex> lock(beginning_);
    const std::uint32_t next = file_.header()->rings.load(std::memory_order_relaxed);
    if (next >= file_.most_rings() || !file_.Reserve(next)) {
      refused = true;
      return Refuse();
    }
    file_.ring(next)->busy.store(1, std::memory_order_relaxed);
    OwnRing* ring = Own(next);
    file_.header()->rings.store(next + 1, std::memory_order_release);
    return ring;
  }

  OwnRing* Refuse() {
    if (file_) file_.header()->without_ring.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }

  OwnRing* Own(std::uint32_t index) {
    own_ring = new (std::nothrow) OwnRing{
        file_.ring(index), RingWriter(file_.ring(index), file_.data(index), file_.ring_words())};
    if (own_ring == nullptr) return Refuse();
    char name[wire::kThreadNameBytes] = {};
    prctl(PR_GET_NAME, name);
    own_ring->writer.Thread(static_cast<std::uint32_t>(syscall(SYS_gettid)), name);
    pthread_setspecific(at_exit_, own_ring);
    return own_ring;
  }

  static void Leave(OwnRing* ring) {
    ring->header->busy.store(0, std::memory_order_release);
    own_ring = nullptr;
    refused =
        true;  // What other destructors of this thread still annotate is counted, not recorded.
    delete ring;
  }

  std::string directory_;
  wire::RingFileShape shape_;
  RingFile file_;
  strobe_agent_api api_{};
  pthread_key_t at_exit_{};
  std::mutex beginning_;
};

// Never destroyed: threads may annotate while the program ends.
Agent& TheAgent() {
  static Agent& agent = *[] {
    auto* made = new Agent;
    pthread_atfork(nullptr, nullptr, [] { TheAgent().AfterFork(); });
    return made;
  }();
  return agent;
}

// Not inlined, so that the usual path saves no registers for it.
[[gnu::noinline, gnu::cold]] OwnRing* Agent::FirstRing() { return TheAgent().TakeRing(); }

void Agent::RecordScope(int level, std::uint64_t begin, std::uint64_t end, const char* text,
                        std::size_t size) {
  OwnRing* ring = own_ring;
  if (__builtin_expect(ring == nullptr, 0)) ring = FirstRing();
  if (ring == nullptr) return;
  ring->writer.Scope(static_cast<std::uint8_t>(level), begin, end, {text, size});
  if (__builtin_expect(agent::MemoryQuestionChanged(*header_), 0))
    agent::AnswerMemoryQuestion(*header_);
}

}  // namespace
}  // namespace strobe

extern "C" __attribute__((visibility("default"))) const strobe_agent_api* strobe_agent_api_v1() {
  return strobe::TheAgent().api();
}

// What CUDA's driver calls when $CUDA_INJECTION64_PATH names this library, in cuInit.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  strobe::TheAgent().CudaIsThere();
  return 1;
}
