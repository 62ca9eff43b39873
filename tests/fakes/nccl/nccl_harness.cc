// Calls a profiler plugin as NCCL 2.27 to 2.30 does: finds it by NCCL_PROFILER_PLUGIN, takes the
// newest version of its interface that it knows itself, has one mask for all communicators, and
// sends the events of collectives, sends and receives in NCCL's order and on its threads.
//
//   nccl_harness --interface 6 --calls 1000 --rank 3 --ranks 8 [--skip-last] [--stay]
//                [--communicators 2] [--no-transfers] [--pause-us 0]
//
// Prints one line of JSON. --skip-last: this rank does not come to its last call. --stay: it then
// waits for a line on its standard input, as a program that hangs.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/nccl/plugin_bytes.h"

using namespace fake_nccl;

// The plugin may ask the library for its version.
extern "C" __attribute__((visibility("default"))) int ncclGetVersion(int* version) {
  const char* set = std::getenv("FAKE_NCCL_VERSION");
  *version = set == nullptr ? 22809 : std::atoi(set);
  return 0;
}

namespace {

constexpr int kWithinColl = kColl | kProxyOp | kProxyStep | kKernelCh | kNetPlugin;
constexpr int kWithinP2p = kP2p | kProxyOp | kProxyStep | kKernelCh | kNetPlugin;
constexpr int kCopies = kCeColl | kCeSync | kCeBatch;

struct Options {
  int interface = 6, calls = 1000, rank = 3, ranks = 8, communicators = 2, pause_us = 0;
  bool skip_last = false, stay = false, transfers = true;
};

struct Plugin {
  int version = 0;
  const Object* object = nullptr;

  template <typename Function>
  Function At(int index) const {
    return reinterpret_cast<Function>(object->functions[index]);
  }
  int Start(void* context, void** handle, const Event& event) const {
    const auto type = event.Get<std::uint64_t>(kType);
    Event copy = event;
    if (version == 5 && type >= static_cast<std::uint64_t>(kCeColl)) {
      *handle = nullptr;
      return 0;
    }
    if (version >= 5) return At<StartEvent>(1)(context, handle, copy.bytes);
    if (type > static_cast<std::uint64_t>(kNetPlugin)) return 0;  // The handle stays as it is.
    std::memset(copy.bytes, 0xaa, sizeof copy.bytes);
    copy.Put(kType, static_cast<std::uint8_t>(type));
    copy.Put(kParent, event.Get<void*>(kParent));
    copy.Put(kRank, event.Get<int>(kRank));
    std::memcpy(copy.bytes + kUnion, event.bytes + kUnion, kEventBytes4 - kUnion);
    if (type == kColl) copy.Put(kParent, event.Get<void*>(kParentGroup));
    if (type == kP2p) copy.Put(kParent, event.Get<void*>(kP2pParentGroup));
    return At<StartEvent>(1)(context, handle, copy.bytes);
  }
  void Stop(void* handle) const { At<StopEvent>(2)(handle); }
  void State(void* handle, int state, std::uint64_t timer) const {
    if (version == 4 && state > kKernelChStop) return;
    At<RecordEventState>(3)(handle, state, &timer);
  }
};

int mask = 0;

struct Communicator {
  void* context = nullptr;
  std::map<std::string, std::uint64_t> sequences{};
};

// Handles of one thread's calls, as NCCL keeps them: that of a collective's call is not forgotten.
struct Calls {
  void *group_call = nullptr, *collective_call = nullptr, *transfer_call = nullptr;
};

Event Make(int type, void* parent) {
  Event event;
  event.Put(kType, static_cast<std::uint64_t>(type));
  event.Put(kParent, parent);
  return event;
}

class Library {
 public:
  Library(const Options& options, const Plugin& plugin) : options_(options), plugin_(plugin) {}

  bool Init(Communicator& communicator, int index) {
    const std::uint64_t id = 0xabc0u + static_cast<unsigned>(index);
    const int result = plugin_.version >= 5
                           ? plugin_.At<InitNew>(0)(&communicator.context, id, &mask, "tensor", 1,
                                                    options_.ranks, options_.rank, nullptr)
                           : plugin_.At<InitOld>(0)(&communicator.context, &mask, "tensor", id, 1,
                                                    options_.ranks, options_.rank, nullptr);
    if (plugin_.version == 5) mask &= ~kCopies;
    return result == 0;
  }

  // One call of the program. Returns the time that the program's thread spent in it.
  std::chrono::nanoseconds Call(Communicator& communicator, int number) {
    const bool transfer = options_.transfers && number % 5 == 4;
    const auto begin = std::chrono::steady_clock::now();
    const int active = __atomic_load_n(&mask, __ATOMIC_RELAXED);
    if ((active & (kGroup | kWithinColl | kP2p | kGroupApi | kCollApi | kP2pApi | kKernelLaunch |
                   kCopies)) != 0) {
      plugin_.Start(communicator.context, &calls_.group_call, Make(kGroupApi, nullptr));
      if (calls_.group_call != nullptr) plugin_.State(calls_.group_call, kGroupStartApiStop, 0);
    }
    if (transfer)
      TransferCall(communicator, active);
    else
      CollectiveCall(communicator, active, number);
    if (calls_.group_call != nullptr) plugin_.State(calls_.group_call, kGroupEndApiStart, 0);
    void* const task = Launch(communicator, active, transfer, number);
    if (calls_.group_call != nullptr) plugin_.Stop(calls_.group_call);
    calls_.group_call = nullptr;
    const auto spent = std::chrono::steady_clock::now() - begin;
    if ((active & (kKernelCh | kProxyOp | kProxyStep | kNetPlugin)) != 0)
      std::thread([&] { Progress(communicator, active, task, number); }).join();
    return spent;
  }

 private:
  static const char* FunctionOf(int number) {
    static const char* const kFunctions[] = {"AllReduce", "AllGather", "ReduceScatter"};
    return kFunctions[number % 3];
  }

  void CollectiveCall(Communicator& communicator, int active, int number) {
    if ((active & (kCollApi | kWithinColl | kCopies)) == 0) return;
    Event event = Make(kCollApi, calls_.group_call);
    event.Put(kApiFunc, FunctionOf(number));
    event.Put(kApiCount, std::size_t{1024});
    event.Put(kApiDatatype, "ncclFloat32");
    event.Put(kApiRoot, 0);
    plugin_.Start(communicator.context, &calls_.collective_call, event);
    if (calls_.collective_call != nullptr) plugin_.Stop(calls_.collective_call);
  }

  void TransferCall(Communicator& communicator, int active) {
    if ((active & (kP2pApi | kWithinP2p)) == 0) return;
    Event event = Make(kP2pApi, calls_.group_call);
    event.Put(kApiFunc, "Send");
    event.Put(kApiCount, std::size_t{1u << 20});
    event.Put(kApiDatatype, "ncclFloat32");
    plugin_.Start(communicator.context, &calls_.transfer_call, event);
  }

  // What ncclGroupEnd does. Returns the task's handle.
  void* Launch(Communicator& communicator, int active, bool transfer, int number) {
    void *group = nullptr, *task = nullptr, *launch = nullptr;
    if ((active & (kGroup | kWithinColl | kP2p)) != 0)
      plugin_.Start(communicator.context, &group, Make(kGroup, nullptr));
    if (transfer) {
      Event event = Make(kP2p, calls_.transfer_call);
      event.Put(kRank, options_.rank);
      event.Put(kP2pFunc, "Send");
      event.Put(kP2pDatatype, "ncclInt8");
      event.Put(kP2pCount, std::size_t{4u << 20});
      event.Put(kPeer, (options_.rank + 1) % options_.ranks);
      event.Put(kP2pChannels, std::uint8_t{2});
      event.Put(kP2pParentGroup, group);
      if ((active & kWithinP2p) != 0) plugin_.Start(communicator.context, &task, event);
      if (calls_.transfer_call != nullptr) plugin_.Stop(calls_.transfer_call);
      calls_.transfer_call = nullptr;
    } else {
      const char* const function = FunctionOf(number);
      Event event = Make(kColl, calls_.collective_call);
      event.Put(kRank, options_.rank);
      event.Put(kSequence, communicator.sequences[function]++);
      event.Put(kFunc, function);
      event.Put(kCount, std::size_t{1024});
      event.Put(kRoot, 0);
      event.Put(kDatatype, "ncclFloat32");
      event.Put(kChannels, std::uint8_t{2});
      event.Put(kAlgo, "RING");
      event.Put(kProto, "SIMPLE");
      event.Put(kParentGroup, group);
      if ((active & kWithinColl) != 0) plugin_.Start(communicator.context, &task, event);
    }
    if ((active & kKernelLaunch) != 0)
      plugin_.Start(communicator.context, &launch, Make(kKernelLaunch, calls_.group_call));
    if (launch != nullptr) plugin_.Stop(launch);
    if (task != nullptr) plugin_.Stop(task);
    if (group != nullptr) plugin_.Stop(group);
    return task;
  }

  // What the thread of NCCL's proxy does later.
  void Progress(Communicator& communicator, int active, void* task, int number) {
    if ((active & (kProxyOp | kProxyStep | kNetPlugin)) != 0 && number % 7 == 0) {
      // Every second one is of another process, whose pointer means nothing here.
      const bool foreign = number % 14 != 0;
      void* operation = nullptr;
      Event event = Make(kProxyOp, foreign ? reinterpret_cast<void*>(0xdead0000) : task);
      event.Put(kProxyPid, foreign ? 1 : static_cast<int>(getpid()));
      plugin_.Start(communicator.context, &operation, event);
      if (operation != nullptr) plugin_.Stop(operation);
    }
    for (int channel = 0; (active & kKernelCh) != 0 && channel < 2; ++channel) {
      void* kernel = nullptr;
      Event event = Make(kKernelCh, task);
      const std::uint64_t began = DeviceNs();
      event.Put(kChannelId, static_cast<std::uint8_t>(channel));
      event.Put(kTimer, began);
      plugin_.Start(communicator.context, &kernel, event);
      if (kernel == nullptr) continue;
      plugin_.State(kernel, kKernelChStop, began + 20'000);
      plugin_.Stop(kernel);
    }
  }

  // The clock of the device, which counts from another moment than the host's.
  static std::uint64_t DeviceNs() {
    constexpr std::uint64_t kDevicesOwn = 1'700'000'000'000'000'000;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return kDevicesOwn + static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count()) - 30'000;
  }

  const Options& options_;
  const Plugin& plugin_;
  Calls calls_{};
};

Plugin Load(int interface) {
  const char* const named = std::getenv("NCCL_PROFILER_PLUGIN");
  if (named == nullptr || std::string(named) == "none") return {};
  void* library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    library = dlopen(("libnccl-profiler-" + std::string(named) + ".so").c_str(), RTLD_NOW);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  for (int version = interface; version >= 4; --version) {
    void* const found = dlsym(library, ("ncclProfiler_v" + std::to_string(version)).c_str());
    if (found != nullptr) return {version, static_cast<const Object*>(found)};
  }
  return {};
}

Options Parse(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    const int value = i + 1 < count ? std::atoi(arguments[i + 1]) : 0;
    if (name == "--interface") options.interface = value;
    if (name == "--calls") options.calls = value;
    if (name == "--rank") options.rank = value;
    if (name == "--ranks") options.ranks = value;
    if (name == "--communicators") options.communicators = value;
    if (name == "--pause-us") options.pause_us = value;
    if (name == "--skip-last") options.skip_last = true;
    if (name == "--no-transfers") options.transfers = false;
    if (name == "--stay") options.stay = true;
  }
  return options;
}

}  // namespace

int main(int count, char** arguments) {
  const Options options = Parse(count, arguments);
  const Plugin plugin = Load(options.interface);
  std::vector<Communicator> communicators(static_cast<std::size_t>(options.communicators));
  Library library(options, plugin);
  std::vector<long> spent;
  spent.reserve(static_cast<std::size_t>(options.calls));
  bool loaded = plugin.object != nullptr;
  for (int i = 0; loaded && i < options.communicators; ++i)
    loaded = library.Init(communicators[static_cast<std::size_t>(i)], i);
  const int last = options.calls - (options.skip_last ? 1 : 0);
  for (int i = 0; loaded && i < last; ++i) {
    Communicator& communicator = communicators[static_cast<std::size_t>(i % options.communicators)];
    spent.push_back(library.Call(communicator, i).count());
    if (options.pause_us > 0)
      std::this_thread::sleep_for(std::chrono::microseconds(options.pause_us));
  }
  std::sort(spent.begin(), spent.end());
  std::printf("{\"version\": %d, \"mask\": %d, \"median_ns\": %ld}\n", plugin.version, mask,
              spent.empty() ? 0 : spent[spent.size() / 2]);
  std::fflush(stdout);
  if (options.stay) std::getchar();
  for (Communicator& communicator : communicators) {
    if (loaded) plugin.At<Finalize>(4)(communicator.context);
  }
  return 0;
}
