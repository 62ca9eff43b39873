// Fakes of libcupti.so.12 and .13, compiled from this source with the headers of each generation.
// They use the real record structs, buffers, a worker thread and the real error codes, and record
// the work of the fake libcuda.so.1.
//
// $FAKE_CUPTI lists faults, separated by spaces:
//   <call>=<CUptiResult>   The call returns this error. Calls: subscribe, unsubscribe, register,
//                          enable:<kind>, disable:<kind>, flush, timestamp.
//   late_ms=<n>            Full buffers are handed back n ms late.
//   flush_ms=<n>           Each flush takes n ms longer.
//   jump_ns=<n>            After a second, the clock jumps n ns ahead.
//   busy_ms=<n>            For n ms after a kind was disabled, a call of the program writes to the
//                          last buffer, and no flush hands that back.
//   dropped=<n>            n records were dropped before the agent came.
//   after_unsubscribe=1    A last buffer is handed back after cuptiUnsubscribe has returned.
//   steal_ms=<n>           n ms after the first kind was enabled, another profiler registers its
//                          callbacks and gets all buffers from then on.
//   lose_every=<n>         Every n-th kernel is not recorded.
//   shift_ns=<n>           Every 10th kernel is recorded n ns later than it ran.
//   foreign=1              Each flush also hands back buffers that were never requested.
//   version=<n>            cuptiGetVersion tells n. Before 130200, cuptiSubscribe_v2 knows only the
//                          fields of 13.0, and before 130300 several tools cannot subscribe.
//   peer=<name>            Another tool of this name has subscribed first and records kernels. At
//                          the process's end, it prints how many it got.
//   peer_shares=1          It lets others subscribe as well. The library then must have 13.3, and
//                          the others must allow it too.
//   finalize=<CUptiResult> cuptiFinalize returns this error.
//
// `enable`, `disable`, `register` and `subscribe` also are the faults of the second generation.
//
// Like the real library, it must not be called after its destructors have run. If it is, it prints
// an error and aborts the process.
#include <cupti.h>
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fakes/cuda/activity.h"

namespace {

#if CUDA_VERSION >= 13000
using Kernel = CUpti_ActivityKernel13;
using Copy = CUpti_ActivityMemcpy7;
using Set = CUpti_ActivityMemset5;
#else
using Kernel = CUpti_ActivityKernel9;
using Copy = CUpti_ActivityMemcpy6;
using Set = CUpti_ActivityMemset4;
#endif

using Clock = std::chrono::system_clock;

// Names of tools are texts; see Peer.
std::map<std::string, long> ReadFaults() {
  std::map<std::string, long> faults;
  const char* text = std::getenv("FAKE_CUPTI");
  std::string words = text == nullptr ? "" : text;
  for (std::size_t at = 0; at < words.size();) {
    std::size_t end = words.find(' ', at);
    if (end == std::string::npos) end = words.size();
    const std::string word = words.substr(at, end - at);
    if (const std::size_t equals = word.find('=');
        equals != std::string::npos && !word.starts_with("peer="))
      faults[word.substr(0, equals)] = std::stol(word.substr(equals + 1));
    at = end + 1;
  }
  return faults;
}

long Fault(const std::string& name) {
  static const std::map<std::string, long> faults = ReadFaults();
  const auto found = faults.find(name);
  return found == faults.end() ? 0 : found->second;
}

CUptiResult Result(const std::string& name) { return static_cast<CUptiResult>(Fault(name)); }

std::uint64_t JumpNs() {
  static const Clock::time_point born = Clock::now();
  static const long jump = Fault("jump_ns");
  return jump != 0 && Clock::now() - born > std::chrono::seconds(1)
             ? static_cast<std::uint64_t>(jump)
             : 0;
}

// The registered callbacks, the buffer that is being filled, and the full ones to hand back.
struct State {
  struct Buffer {
    std::uint8_t* data = nullptr;
    std::size_t size = 0, used = 0;
    std::uint64_t complete_at = 0;  // End time of its last record.
  };

  std::mutex mutex;
  std::condition_variable changed;
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  Buffer filling;
  std::deque<Buffer> full;
  bool worker = false;
  std::uint64_t filled = 0, handed_back = 0;  // Numbers of buffers since the start.
  std::size_t dropped = static_cast<std::size_t>(Fault("dropped"));
};

std::atomic<std::uint64_t> enabled{0};
std::atomic<std::uint64_t> busy_until{0};

// The one subscription besides that of the peer.
enum Subscribed { kNobody, kAlone, kShared };
std::atomic<int> subscriber{kNobody};
CUpti_CallbackFunc at_call = nullptr;
void* of_subscriber = nullptr;
std::atomic<bool> calls_back{false};                 // cuptiEnableDomain asked for driver calls.
std::array<std::atomic<bool>, 1024> selected_calls;  // Driver calls with records of their own.

// The tool that subscribed first, if $FAKE_CUPTI names one.
struct Peer {
  std::string name;
  std::atomic<long> kernels{0};
};

Peer& ThePeer() {
  static Peer& peer = *[] {
    auto* made = new Peer;
    const char* text = std::getenv("FAKE_CUPTI");
    const std::string words = text == nullptr ? "" : text;
    if (const std::size_t at = words.find("peer="); at != std::string::npos)
      made->name = words.substr(at + 5, words.find(' ', at) - at - 5);
    return made;
  }();
  return peer;
}

std::uint32_t Version() {
  const long version = Fault("version");
  return version == 0 ? CUPTI_API_VERSION : static_cast<std::uint32_t>(version);
}

State& TheState() {
  static State& state = *new State;
  return state;
}

bool Enabled(CUpti_ActivityKind kind) { return (enabled.load() >> kind & 1) != 0; }

std::uint64_t NowNs() {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
          .count());
}

std::atomic<bool> destroyed{false};
struct Destroyed {
  ~Destroyed() {
    State& state = TheState();
    if (const Peer& peer = ThePeer(); !peer.name.empty())
      std::fprintf(stderr, "fake CUPTI: %s got %ld kernels\n", peer.name.c_str(),
                   peer.kernels.load());
    // CUPTI hands back its last buffer when the process ends. In a forked child it hands back a
    // copy.
    if (state.filling.data != nullptr && state.complete != nullptr)
      state.complete(nullptr, 0, state.filling.data, state.filling.size, state.filling.used);
    destroyed = true;
  }
};
Destroyed at_end;

// Aborts if the destructors have run.
void MustLive(const char* what) {
  if (!destroyed) return;
  std::fprintf(stderr, "fake CUPTI: %s after its destructors\n", what);
  std::abort();
}

std::atomic<std::int64_t> stolen_at_ns{0};

bool Stolen() {
  const std::int64_t at = stolen_at_ns;
  return at != 0 && static_cast<std::int64_t>(NowNs()) > at;
}

void HandBack(const State::Buffer& buffer) {
  if (!Stolen()) TheState().complete(nullptr, 0, buffer.data, buffer.size, buffer.used);
}

// The worker thread: hands full buffers back, as CUPTI's own thread does.
void Work() {
  State& state = TheState();
  for (;;) {
    std::unique_lock<std::mutex> lock(state.mutex);
    state.changed.wait(lock, [&] { return !state.full.empty(); });
    const State::Buffer buffer = state.full.front();
    state.full.pop_front();
    lock.unlock();
    if (const long late = Fault("late_ms"); late > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(late));
    HandBack(buffer);
    lock.lock();
    ++state.handed_back;
    state.changed.notify_all();
  }
}

template <typename T>
void Append(const T& record, std::uint64_t ends) {
  State& state = TheState();
  std::lock_guard<std::mutex> lock(state.mutex);
  if (state.filling.data != nullptr && state.filling.used + sizeof(T) > state.filling.size) {
    ++state.filled;
    state.full.push_back(state.filling);
    state.filling = {};
    state.changed.notify_all();
  }
  if (state.filling.data == nullptr) {
    std::size_t most = 0;
    if (state.request != nullptr) state.request(&state.filling.data, &state.filling.size, &most);
    if (state.filling.data == nullptr) {
      ++state.dropped;
      return;
    }
  }
  std::memcpy(state.filling.data + state.filling.used, &record, sizeof record);
  state.filling.used += (sizeof(T) + 7) / 8 * 8;
  state.filling.complete_at = std::max(state.filling.complete_at, ends);
}

struct External {
  CUpti_ExternalCorrelationKind kind;
  std::uint64_t id;
};
thread_local std::vector<External> externals;

std::uint32_t ThreadId() { return static_cast<std::uint32_t>(syscall(SYS_gettid)); }

void OnKernel(const FakeActivity& from, std::uint64_t jump) {
  static std::atomic<long> kernels{0};
  static const long lose_every = Fault("lose_every"), shift_ns = Fault("shift_ns");
  const long number = ++kernels;
  if (lose_every > 0 && number % lose_every == 0) return;
  if (number % 10 == 0) jump += static_cast<std::uint64_t>(shift_ns);
  Kernel record{};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.registersPerThread = static_cast<std::uint16_t>(from.registers);
  record.start = from.begin + jump;
  record.end = from.end + jump;
  record.deviceId = from.device;
  record.contextId = from.context;
  record.streamId = from.stream;
  record.gridX = static_cast<std::int32_t>(from.grid[0]);
  record.gridY = static_cast<std::int32_t>(from.grid[1]);
  record.gridZ = static_cast<std::int32_t>(from.grid[2]);
  record.blockX = static_cast<std::int32_t>(from.block[0]);
  record.blockY = static_cast<std::int32_t>(from.block[1]);
  record.blockZ = static_cast<std::int32_t>(from.block[2]);
  record.dynamicSharedMemory = static_cast<std::int32_t>(from.shared);
  record.correlationId = from.correlation;
  record.graphId = from.graph;
  record.name = from.name;
  Append(record, from.end);
}

void OnGraph(const FakeActivity& from, std::uint64_t jump) {
  CUpti_ActivityGraphTrace2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  record.correlationId = from.correlation;
  record.start = from.begin + jump;
  record.end = from.end + jump;
  record.deviceId = record.endDeviceId = from.device;
  record.contextId = record.endContextId = from.context;
  record.streamId = from.stream;
  record.graphId = from.graph;
  Append(record, from.end);
}

template <typename T>
void FillWork(const FakeActivity& from, std::uint64_t jump, T& record) {
  record.bytes = from.bytes;
  record.start = from.begin + jump;
  record.end = from.end + jump;
  record.deviceId = from.device;
  record.contextId = from.context;
  record.streamId = from.stream;
  record.correlationId = from.correlation;
}

void OnCopy(const FakeActivity& from, std::uint64_t jump) {
  Copy record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  record.copyKind = static_cast<std::uint8_t>(from.kind);
  record.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
  record.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
  FillWork(from, jump, record);
  Append(record, from.end);
}

void OnSet(const FakeActivity& from, std::uint64_t jump) {
  Set record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.flags = CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC;
  FillWork(from, jump, record);
  Append(record, from.end);
}

void OnMemory(const FakeActivity& from, std::uint64_t jump) {
  CUpti_ActivityMemory4 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  record.memoryOperationType = static_cast<CUpti_ActivityMemoryOperationType>(from.kind);
  record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  record.correlationId = from.correlation;
  record.address = from.address;
  record.bytes = from.bytes;
  record.timestamp = from.call_begin + jump;
  record.deviceId = from.device;
  record.contextId = from.context;
  record.streamId = from.stream;
  Append(record, from.call_end);
}

void OnRange(const FakeActivity& from, std::uint64_t jump) {
  CUpti_ActivityMarker2 record{};
  record.kind = CUPTI_ACTIVITY_KIND_MARKER;
  record.flags = static_cast<CUpti_ActivityFlag>(from.kind);
  record.timestamp = from.begin + jump;
  record.id = from.correlation;
  record.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  record.objectId.pt.processId = static_cast<std::uint32_t>(getpid());
  record.objectId.pt.threadId = ThreadId();
  record.name = from.name;
  Append(record, from.begin);
}

void OnCall(const FakeActivity& from, std::uint64_t jump) {
  if (Enabled(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) && !externals.empty()) {
    CUpti_ActivityExternalCorrelation record{};
    record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    record.externalKind = externals.back().kind;
    record.externalId = externals.back().id;
    record.correlationId = from.correlation;
    Append(record, from.call_end);
  }
  CUpti_ActivityAPI record{};
  record.kind = CUPTI_ACTIVITY_KIND_DRIVER;
  record.cbid = from.call;
  record.start = from.call_begin + jump;
  record.end = from.call_end + jump;
  record.processId = static_cast<std::uint32_t>(getpid());
  record.threadId = ThreadId();
  record.correlationId = from.correlation;
  Append(record, from.call_end);
}

void CallBack(const FakeActivity& from, CUpti_ApiCallbackSite site) {
  CUpti_CallbackData data{};
  data.callbackSite = site;
  if (calls_back) at_call(of_subscriber, CUPTI_CB_DOMAIN_DRIVER_API, from.call, &data);
}

void OnActivity(const FakeActivity& from) {
  const std::uint64_t jump = JumpNs();
  if (from.what == FakeActivity::kKernel && !ThePeer().name.empty()) ++ThePeer().kernels;
  const bool selected = from.call < selected_calls.size() && selected_calls[from.call];
  if (from.call != 0 && (selected || Enabled(CUPTI_ACTIVITY_KIND_DRIVER))) OnCall(from, jump);
  if (from.call != 0 && calls_back) {
    CallBack(from, CUPTI_API_ENTER);
    CallBack(from, CUPTI_API_EXIT);
  }
  // At graph level, the nodes have no records.
  if (Enabled(CUPTI_ACTIVITY_KIND_GRAPH_TRACE) && from.graph != 0) {
    if (from.what == FakeActivity::kGraph) OnGraph(from, jump);
    return;
  }
  if (from.what == FakeActivity::kKernel && Enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL))
    OnKernel(from, jump);
  if (from.what == FakeActivity::kCopy && Enabled(CUPTI_ACTIVITY_KIND_MEMCPY)) OnCopy(from, jump);
  if (from.what == FakeActivity::kSet && Enabled(CUPTI_ACTIVITY_KIND_MEMSET)) OnSet(from, jump);
  if (from.what == FakeActivity::kMemory && Enabled(CUPTI_ACTIVITY_KIND_MEMORY2))
    OnMemory(from, jump);
  if (from.what == FakeActivity::kRange && Enabled(CUPTI_ACTIVITY_KIND_MARKER)) OnRange(from, jump);
}

void SetHook(FakeActivityHook hook) {
  void* cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (cuda == nullptr) return;
  auto* set = reinterpret_cast<void (*)(FakeActivityHook)>(dlsym(cuda, "fake_cuda_set_hook"));
  if (set != nullptr) set(hook);
}

// Whether anybody wants to know what the program does.
void UpdateHook() {
  bool wanted = enabled != 0 || calls_back || !ThePeer().name.empty();
  for (const std::atomic<bool>& selected : selected_calls) wanted = wanted || selected;
  SetHook(wanted ? &OnActivity : nullptr);
}

// The real library may bear what the agent never does: functions of one generation with the
// subscription of the other.
void MustRecordByFirst(const char* what) {
  if (subscriber != kShared) return;
  std::fprintf(stderr, "fake CUPTI: %s with a shared subscription\n", what);
  std::abort();
}

CUptiResult Register(CUpti_BuffersCallbackRequestFunc request,
                     CUpti_BuffersCallbackCompleteFunc complete) {
  if (const CUptiResult fault = Result("register"); fault != CUPTI_SUCCESS) return fault;
  State& state = TheState();
  std::lock_guard<std::mutex> lock(state.mutex);
  state.request = request;
  state.complete = complete;
  if (!std::exchange(state.worker, true)) {
    std::thread worker(Work);
    pthread_setname_np(worker.native_handle(), "cupti-worker");
    worker.detach();
  }
  return CUPTI_SUCCESS;
}

CUptiResult Enable(CUpti_ActivityKind kind) {
  if (const long ms = Fault("steal_ms"); ms > 0 && stolen_at_ns == 0)
    stolen_at_ns = static_cast<std::int64_t>(NowNs()) + ms * 1'000'000;
  const CUptiResult fault = Result("enable:" + std::to_string(kind));
  if (fault != CUPTI_SUCCESS) return fault;
  enabled.fetch_or(1ull << kind);
  UpdateHook();
  return CUPTI_SUCCESS;
}

CUptiResult Disable(CUpti_ActivityKind kind) {
  const CUptiResult fault = Result("disable:" + std::to_string(kind));
  if (fault != CUPTI_SUCCESS) return fault;
  enabled.fetch_and(~(1ull << kind));
  UpdateHook();
  if (const long ms = Fault("busy_ms"); ms > 0)
    busy_until = NowNs() + static_cast<std::uint64_t>(ms) * 1'000'000;
  return CUPTI_SUCCESS;
}

CUptiResult Select(CUpti_CallbackId call, std::uint8_t on) {
  if (call >= selected_calls.size()) return CUPTI_ERROR_INVALID_PARAMETER;
  selected_calls[call] = on != 0;
  UpdateHook();
  return CUPTI_SUCCESS;
}

CUptiResult Dropped(std::size_t* dropped) {
  State& state = TheState();
  std::lock_guard<std::mutex> lock(state.mutex);
  *dropped = std::exchange(state.dropped, 0);
  return CUPTI_SUCCESS;
}

CUptiResult Subscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* user,
                      Subscribed how) {
  if (const CUptiResult fault = Result("subscribe"); fault != CUPTI_SUCCESS) return fault;
  UpdateHook();  // The peer records from now on.
  const bool taken = !ThePeer().name.empty() && !(how == kShared && Fault("peer_shares") != 0);
  int none = kNobody;
  if (taken || !subscriber.compare_exchange_strong(none, how))
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  at_call = callback;
  of_subscriber = user;
  *handle = reinterpret_cast<CUpti_SubscriberHandle>(&subscriber);
  return CUPTI_SUCCESS;
}

#if CUDA_VERSION >= 13000
CUpti_BuffersCallbackRequestFunc_v2 second_request = nullptr;
CUpti_BuffersCallbackCompleteFunc_v2 second_complete = nullptr;

void CUPTIAPI RequestBySecond(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  CUpti_BufferCallbackRequestInfo info{};
  info.structSize = sizeof info;
  second_request(buffer, size, most, &info);
}

void CUPTIAPI CompleteBySecond(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t size,
                               std::size_t valid) {
  CUpti_BufferCallbackCompleteInfo info{};
  info.structSize = sizeof info;
  second_complete(buffer, size, valid, &info);
}

// As the real one tells names.
void TellName(const char* name, const CUpti_SubscriberParams& params) {
  if (params.oldSubscriberName != nullptr && name != nullptr)
    std::snprintf(params.oldSubscriberName, params.oldSubscriberSize, "CUPTI for %s", name);
}
#endif

std::size_t SizeOf(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return sizeof(CUpti_ActivityGraphTrace2);
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(Kernel);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(Copy);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(Set);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return sizeof(CUpti_ActivityMemory4);
    case CUPTI_ACTIVITY_KIND_MARKER:
      return sizeof(CUpti_ActivityMarker2);
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    default:
      return 0;
  }
}

}  // namespace

extern "C" {

CUptiResult CUPTIAPI cuptiGetVersion(std::uint32_t* version) {
  *version = Version();
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback,
                                    void* user) {
  MustLive("cuptiSubscribe");
  return Subscribe(handle, callback, user, kAlone);
}
CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle) {
  MustLive("cuptiUnsubscribe");
  if (const CUptiResult fault = Result("unsubscribe"); fault != CUPTI_SUCCESS) return fault;
  subscriber = kNobody;
  calls_back = false;
  UpdateHook();
  if (Fault("after_unsubscribe") != 0) {
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      State::Buffer buffer;
      std::size_t most = 0;
      TheState().request(&buffer.data, &buffer.size, &most);
      HandBack(buffer);
    }).detach();
  }
  return CUPTI_SUCCESS;
}
// Says so, because the real one can end a program that trains.
CUptiResult CUPTIAPI cuptiFinalize() {
  MustLive("cuptiFinalize");
  if (const CUptiResult fault = Result("finalize"); fault != CUPTI_SUCCESS) return fault;
  std::fprintf(stderr, "fake CUPTI: detached\n");
  enabled = 0;
  subscriber = kNobody;
  calls_back = false;
  SetHook(nullptr);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiEnableDomain(std::uint32_t enable, CUpti_SubscriberHandle,
                                       CUpti_CallbackDomain domain) {
  MustLive("cuptiEnableDomain");
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) calls_back = enable != 0;
  UpdateHook();
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                                    CUpti_BuffersCallbackCompleteFunc complete) {
  MustLive("cuptiActivityRegisterCallbacks");
  MustRecordByFirst("cuptiActivityRegisterCallbacks");
  return Register(request, complete);
}
CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  MustLive("cuptiActivityEnable");
  MustRecordByFirst("cuptiActivityEnable");
  return Enable(kind);
}
CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
  MustLive("cuptiActivityDisable");
  MustRecordByFirst("cuptiActivityDisable");
  return Disable(kind);
}
CUptiResult CUPTIAPI cuptiActivityEnableDriverApi(CUpti_CallbackId call, std::uint8_t on) {
  MustLive("cuptiActivityEnableDriverApi");
  MustRecordByFirst("cuptiActivityEnableDriverApi");
  return Select(call, on);
}
// The fake driver's program makes no calls of the runtime.
CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi(CUpti_CallbackId, std::uint8_t) {
  MustRecordByFirst("cuptiActivityEnableRuntimeApi");
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityFlushAll(std::uint32_t flag) {
  MustLive("cuptiActivityFlushAll");
  if (Fault("foreign") != 0) {
    alignas(8) static std::uint8_t foreign[4096];
    for (int i = 0; i < 200; ++i) TheState().complete(nullptr, 0, foreign, sizeof foreign, 0);
  }
  if (const long ms = Fault("flush_ms"); ms > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  if (const CUptiResult fault = Result("flush"); fault != CUPTI_SUCCESS) return fault;
  State& state = TheState();
  std::unique_lock<std::mutex> lock(state.mutex);
  const bool forced = (flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0;
  if (state.filling.used > 0 && NowNs() >= busy_until &&
      (forced || state.filling.complete_at <= NowNs())) {
    ++state.filled;
    state.full.push_back(state.filling);
    state.filling = {};
    state.changed.notify_all();
  }
  // Waits only for buffers that are full now, because the program may fill more in the meantime.
  const std::uint64_t until = state.filled;
  state.changed.wait(lock, [&] { return state.handed_back >= until; });
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t valid,
                                                CUpti_Activity** record) {
  if (valid == 0) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  if (*record == nullptr) {
    *record = reinterpret_cast<CUpti_Activity*>(buffer);
    return CUPTI_SUCCESS;
  }
  std::uint8_t* next =
      reinterpret_cast<std::uint8_t*>(*record) + (SizeOf((*record)->kind) + 7) / 8 * 8;
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t,
                                                       std::size_t* dropped) {
  return Dropped(dropped);
}
CUptiResult CUPTIAPI cuptiGetTimestamp(std::uint64_t* timestamp) {
  if (const CUptiResult fault = Result("timestamp"); fault != CUPTI_SUCCESS) return fault;
  *timestamp = NowNs() + JumpNs();
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain, std::uint32_t id,
                                          const char** name) {
  switch (id) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
      *name = "cuLaunchKernel";
      break;
    case CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch:
      *name = "cuGraphLaunch";
      break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2:
      *name = "cuMemcpyHtoDAsync_v2";
      break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async:
      *name = "cuMemsetD8Async";
      break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2:
      *name = "cuMemAlloc_v2";
      break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2:
      *name = "cuMemFree_v2";
      break;
    default:
      return CUPTI_ERROR_INVALID_PARAMETER;
  }
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiSetThreadIdType(CUpti_ActivityThreadIdType) {
  MustRecordByFirst("cuptiSetThreadIdType");
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                            std::uint64_t id) {
  externals.push_back({kind, id});
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind,
                                                           std::uint64_t* last) {
  if (externals.empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last != nullptr) *last = externals.back().id;
  externals.pop_back();
  return CUPTI_SUCCESS;
}

#if CUDA_VERSION >= 13000
CUptiResult CUPTIAPI cuptiSubscribe_v2(CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback,
                                       void* user, CUpti_SubscriberParams* params) {
  MustLive("cuptiSubscribe_v2");
  constexpr std::size_t kSizeOf130 = offsetof(CUpti_SubscriberParams, allowMultipleSubscribers);
  const std::size_t known =
      Version() >= 130200 ? std::size_t{CUpti_SubscriberParams_STRUCT_SIZE} : kSizeOf130;
  if (params == nullptr || params->structSize > known) return CUPTI_ERROR_INVALID_PARAMETER;
  const bool shares = params->structSize > kSizeOf130 && params->allowMultipleSubscribers != 0;
  if (shares && Version() < 130300) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  const CUptiResult result = Subscribe(handle, callback, user, shares ? kShared : kAlone);
  if (!ThePeer().name.empty())
    TellName(ThePeer().name.c_str(), *params);
  else if (shares && result == CUPTI_SUCCESS)
    TellName(params->subscriberName, *params);
  return result;
}
CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks_v2(
    CUpti_SubscriberHandle, CUpti_BuffersCallbackRequestFunc_v2 request,
    CUpti_BuffersCallbackCompleteFunc_v2 complete) {
  MustLive("cuptiActivityRegisterCallbacks_v2");
  second_request = request;
  second_complete = complete;
  return Register(&RequestBySecond, &CompleteBySecond);
}
CUptiResult CUPTIAPI cuptiActivityEnable_v2(CUpti_SubscriberHandle, CUpti_ActivityKind kind,
                                            CUpti_ActivityConfig*) {
  MustLive("cuptiActivityEnable_v2");
  return Enable(kind);
}
CUptiResult CUPTIAPI cuptiActivityDisable_v2(CUpti_SubscriberHandle, CUpti_ActivityKind kind,
                                             CUpti_ActivityConfig*) {
  MustLive("cuptiActivityDisable_v2");
  return Disable(kind);
}
CUptiResult CUPTIAPI cuptiActivityEnableDriverApi_v2(CUpti_SubscriberHandle, CUpti_CallbackId call,
                                                     std::uint8_t on) {
  MustLive("cuptiActivityEnableDriverApi_v2");
  return Select(call, on);
}
CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi_v2(CUpti_SubscriberHandle, CUpti_CallbackId,
                                                      std::uint8_t) {
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI cuptiActivityGetNextRecord_v2(CUpti_SubscriberHandle, std::uint8_t* buffer,
                                                   std::size_t valid, CUpti_Activity** record) {
  return cuptiActivityGetNextRecord(buffer, valid, record);
}
CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords_v2(CUpti_SubscriberHandle, CUcontext,
                                                          std::uint32_t, std::size_t* dropped) {
  return Dropped(dropped);
}
CUptiResult CUPTIAPI cuptiActivitySetAttribute_v2(CUpti_SubscriberHandle, CUpti_ActivityAttribute,
                                                  std::size_t*, void*) {
  return CUPTI_SUCCESS;
}
#endif
}
