#include "agent/evidence/flight_dump.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <new>
#include <utility>

#include "agent/evidence/small_file.h"
#include "agent/recorder/quiet_thread.h"

namespace strobe::agent {
namespace {

using wire::FlightState;

// With another form of std::string the functions below would have other names.
static_assert(_GLIBCXX_USE_CXX11_ABI == 1 && sizeof(std::string) == 32);

using Dump = std::string (*)(bool collectives, bool stack_traces, bool only_active);
using DumpOfBackend = std::string (*)(bool collectives, bool stack_traces, bool only_active,
                                      const std::string& backend);

constexpr char kCpuLibrary[] = "libtorch_cpu.so", kCudaLibrary[] = "libtorch_cuda.so";
constexpr char kNcclDump[] = "_ZN4c10d15dump_nccl_traceB5cxx11Ebbb";
constexpr char kDump[] = "_ZN4c10d13dump_fr_traceB5cxx11Ebbb";  // PyTorch 2.8 to 2.14.
constexpr char kDumpOfBackend[] =                               // Since 2.15.
    "_ZN4c10d13dump_fr_traceEbbbRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
// A recorder that is off, or has recorded nothing, dumps less.
constexpr std::size_t kEmptyDump = 256;
constexpr std::size_t kMaxDump = std::size_t{32} << 20;

std::atomic<FlightState> flight_state{FlightState::kNotAsked};

struct FlightJob {
  std::string directory, name;
};

// PyTorch's libraries are loaded for themselves only, so that the default look-up does not find
// their symbols.
template <typename Function>
Function FindIn(const char* library, const char* name) {
  void* const handle = dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
  return handle == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(handle, name));
}

// False if there is no recorder that is known.
bool DumpInto(std::string& dump) {
  bool found = false;
  if (const auto nccl = FindIn<Dump>(kCudaLibrary, kNcclDump)) {
    dump = nccl(/*collectives=*/true, /*stack_traces=*/false, /*only_active=*/false);
    found = true;
  }
  if (dump.size() > kEmptyDump) return true;
  std::string other;
  if (const auto of_backend = FindIn<DumpOfBackend>(kCpuLibrary, kDumpOfBackend)) {
    other = of_backend(/*collectives=*/true, /*stack_traces=*/false, /*only_active=*/false, "gloo");
    found = true;
  } else if (const auto of_cpu = FindIn<Dump>(kCpuLibrary, kDump)) {
    other = of_cpu(/*collectives=*/true, /*stack_traces=*/false, /*only_active=*/false);
    found = true;
  }
  if (other.size() > dump.size()) dump = std::move(other);
  return found;
}

FlightState RunFlightJob(const FlightJob& job) {
  try {
    std::string dump;
    if (!DumpInto(dump)) return FlightState::kNoRecorder;
    const bool written = dump.size() <= kMaxDump && WriteSmallFile(job.directory, job.name, dump);
    return written ? FlightState::kWritten : FlightState::kFailed;
  } catch (...) {
    return FlightState::kFailed;
  }
}

void* RunFlightThread(void* argument) {
  auto* const job = static_cast<FlightJob*>(argument);
  const FlightState state = RunFlightJob(*job);
  delete job;
  flight_state.store(state, std::memory_order_release);
  return nullptr;
}

}  // namespace

void BeginFlightDump(const std::string& directory, const std::string& name) {
  if (FlightDumpState() == FlightState::kRunning) return;
  auto* const job = new (std::nothrow) FlightJob{directory, name};
  if (job == nullptr) return;
  flight_state.store(FlightState::kRunning, std::memory_order_release);
  if (StartQuietThread("strobe-flight", &RunFlightThread, job)) return;
  delete job;
  flight_state.store(FlightState::kFailed, std::memory_order_release);
}

FlightState FlightDumpState() { return flight_state.load(std::memory_order_acquire); }

void ForgetFlightDump() { flight_state = FlightState::kNotAsked; }

}  // namespace strobe::agent
