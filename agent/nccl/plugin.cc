#include "agent/nccl/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "agent/wire/ticks.h"

namespace strobe::nccl {

// The plugin's context of one communicator.
struct CollectivePlugin::Context {
  std::uint32_t communicator = kNoCommunicator;
  int* mask = nullptr;  // The library's, one for all communicators.
  void* chained = nullptr;
  bool is_chained = false;
};

namespace {

// What a recorder asks for at all times. It brings the calls, too.
constexpr int kAlways = kCollective | kTransfer;

std::string_view TextOf(const char* text) { return text == nullptr ? "" : text; }

CallFacts FactsOf(const CollectiveCallV5& call) {
  return {.call = wire::CollectiveCallOf(TextOf(call.function)),
          .type = wire::ElementTypeOf(TextOf(call.type)),
          .peer = call.root,
          .count = call.count,
          .captured = call.captured};
}
CallFacts FactsOf(const TransferCallV5& call) {
  return {.call = wire::CollectiveCallOf(TextOf(call.function)),
          .type = wire::ElementTypeOf(TextOf(call.type)),
          .count = call.count,
          .captured = call.captured};
}
CallFacts FactsOf(const CollectiveV4& call) {
  return {.call = wire::CollectiveCallOf(TextOf(call.function)),
          .type = wire::ElementTypeOf(TextOf(call.type)),
          .peer = call.root,
          .count = call.count};
}
CallFacts FactsOf(const TransferV4& call) {
  return {.call = wire::CollectiveCallOf(TextOf(call.function)),
          .type = wire::ElementTypeOf(TextOf(call.type)),
          .peer = call.peer,
          .count = call.count};
}

LaunchFacts LaunchOf(const EventV5& event) {
  if (event.type == kTransfer)
    return {.peer = event.transfer.call.peer, .channels = event.transfer.call.channels};
  const CollectiveV4& call = event.collective.call;
  return {.sequence = call.sequence,
          .peer = call.root,
          .channels = call.channels,
          .algorithm = TextOf(call.algorithm),
          .protocol = TextOf(call.protocol)};
}

EventV5 AsVersion5(const EventV4& event) {
  EventV5 made = {};
  made.type = event.type;
  made.parent = event.parent;
  made.rank = event.rank;
  if (event.type == kCollective) {
    made.collective = {.call = event.collective, .parent_group = event.parent};
  } else if (event.type == kTransfer) {
    made.transfer = {.call = event.transfer, .parent_group = event.parent};
  } else {
    std::memcpy(made.bytes, event.bytes, sizeof event.bytes);
  }
  return made;
}

}  // namespace

void CollectivePlugin::Begin(const Caller& caller) {
  if (std::exchange(has_begun_, true)) return;
  chain_.Find(caller.interface);
  const PluginSettings settings = caller.settings();
  if (settings.path.empty() || !recorder_.Open(settings.path)) return;
  const Library library = LibraryAt(caller.address);
  wire::CollectiveHeader& header = *recorder_.header();
  header.library = library.kind;
  header.library_version = static_cast<std::uint32_t>(std::max(library.version, 0));
  header.interface_version = static_cast<std::uint32_t>(caller.interface);
  header.chained_version = static_cast<std::uint32_t>(chain_.version());
  header.device_times =
      settings.device_times ? DeviceTimesOf(library) : wire::DeviceTimes::kNotAsked;
}

int CollectivePlugin::Init(const Caller& caller, void** context, int* mask,
                           const ChainedCommunicator& communicator) {
  auto* const made = new (std::nothrow) Context{.mask = mask};
  *context = made;
  if (made == nullptr) return kSuccess;
  {
    std::lock_guard<std::mutex> lock(beginning_);
    Begin(caller);
    made->communicator = recorder_.AddCommunicator({.id = communicator.id,
                                                    .name = TextOf(communicator.name),
                                                    .rank = communicator.rank,
                                                    .ranks = communicator.ranks,
                                                    .nodes = communicator.nodes});
  }
  // Without the lock: the other may wait for another thread's communicator.
  made->is_chained = chain_.version() != 0 && chain_.Init(&made->chained, communicator);
  ApplyMask(*made);
  return kSuccess;
}

bool CollectivePlugin::WantsDeviceTimes() const {
  const wire::CollectiveHeader* const header = recorder_.header();
  if (header == nullptr || header->device_times != wire::DeviceTimes::kOnRequest) return false;
  const std::uint64_t until = header->device_times_until.load(std::memory_order_relaxed);
  return until != 0 && wire::MonotonicNs() < until;
}

// The library reads its mask at each call of the program; what is written here holds at once.
void CollectivePlugin::ApplyMask(const Context& context) const {
  int mask = chain_.mask();
  if (recorder_.is_open()) mask |= kAlways | (WantsDeviceTimes() ? kKernelChannel : 0);
  if (__atomic_load_n(context.mask, __ATOMIC_RELAXED) != mask)
    __atomic_store_n(context.mask, mask, __ATOMIC_RELAXED);
}

CollectivePlugin::Noted CollectivePlugin::RecordOf(const void* handle) const {
  if (handle == nullptr) return {};
  const std::uint64_t made = recorder_.made();
  if (own_.Has(handle)) {
    const auto number = own_.NumberOf(handle, made);
    return number ? Noted{.number = *number} : Noted{};
  }
  const auto found = links_.Find(handle, made);
  return found ? Noted{.number = found->number, .marked = found->marked} : Noted{};
}

CollectivePlugin::Noted CollectivePlugin::Note(const Context& context, const EventV5& event,
                                               bool looks_up) {
  const auto begin = [&](CallFacts facts) {
    facts.communicator = context.communicator;
    return Noted{.number = recorder_.Begin(facts)};
  };
  switch (event.type) {
    case kCollectiveCall:
      return begin(FactsOf(event.collective_call));
    case kTransferCall:
      return begin(FactsOf(event.transfer_call));
    case kCollective:
    case kTransfer: {
      const CallFacts facts =
          event.type == kCollective ? FactsOf(event.collective.call) : FactsOf(event.transfer.call);
      Noted noted = looks_up ? RecordOf(event.parent) : Noted{};
      // One call may be carried out as several of another kind, such as an all-to-all as sends.
      const bool same = noted.number != kNoRecord && recorder_.CallOf(noted.number) == facts.call;
      if (!same) noted = begin(facts);
      recorder_.Launched(noted.number, LaunchOf(event));
      return noted;
    }
    case kKernelChannel: {
      const Noted noted = RecordOf(event.parent);
      if (noted.number != kNoRecord) recorder_.DeviceBegan(noted.number, event.kernel.device_ns);
      return noted;
    }
    default:
      return {};
  }
}

// Whether the other asked for the times of channels when the event's parent began.
bool CollectivePlugin::TheirsIsMarked(const EventV5& event, const Noted& parent) const {
  if (!recorder_.is_open()) return true;  // Nobody but the other asks for anything.
  if (own_.Has(event.parent)) return false;
  if (parent.number == kNoRecord) return (chain_.mask() & kKernelChannel) != 0;
  return parent.marked;
}

int CollectivePlugin::StartEvent(const Context& context, void** handle, const EventV5& event,
                                 bool looks_up) {
  *handle = nullptr;
  ApplyMask(context);
  const Noted noted = recorder_.is_open() ? Note(context, event, looks_up) : Noted{};
  void* handle_of_other = nullptr;
  int result = kSuccess;
  if (context.is_chained && chain_.Wants(event.type, TheirsIsMarked(event, noted))) {
    EventV5 theirs = event;
    // Where the other has no handle of the parent, it would see none without us either.
    if (own_.Has(theirs.parent)) theirs.parent = nullptr;
    result = chain_.Start(context.chained, &handle_of_other, theirs);
  }
  if (handle_of_other != nullptr) {
    const bool marked = (chain_.mask() & kKernelChannel) != 0;
    if (noted.number != kNoRecord) links_.Add(handle_of_other, noted.number, marked);
    *handle = handle_of_other;
  } else if (noted.number != kNoRecord) {
    *handle = own_.Of(noted.number);
  }
  return result;
}

int CollectivePlugin::Start(void* context, void** handle, const EventV5& event) {
  if (context == nullptr) return kSuccess;
  return StartEvent(*static_cast<const Context*>(context), handle, event, /*looks_up=*/true);
}

int CollectivePlugin::StartVersion4(void* context, void** handle, const EventV4& event) {
  if (context == nullptr) return kSuccess;
  // The parent of a collective is its group there, and no call.
  return StartEvent(*static_cast<const Context*>(context), handle, AsVersion5(event),
                    /*looks_up=*/false);
}

int CollectivePlugin::Stop(void* handle) {
  return handle == nullptr || own_.Has(handle) ? kSuccess : chain_.Stop(handle);
}

int CollectivePlugin::State(void* handle, int state, StateDetails* details) {
  if (handle == nullptr) return kSuccess;
  if (state == kKernelChannelStop && details != nullptr && recorder_.is_open()) {
    const Noted noted = RecordOf(handle);
    if (noted.number != kNoRecord) recorder_.DeviceEnded(noted.number, details->device_ns);
  }
  return own_.Has(handle) ? kSuccess : chain_.State(handle, state, details);
}

int CollectivePlugin::Finish(void* context) {
  auto* const ended = static_cast<Context*>(context);
  if (ended == nullptr) return kSuccess;
  recorder_.EndCommunicator(ended->communicator);
  const int result = ended->is_chained ? chain_.Finish(ended->chained) : kSuccess;
  delete ended;
  return result;
}

void CollectivePlugin::AfterFork() {
  new (&beginning_) std::mutex;  // Another thread may have held it during the fork.
  recorder_.Forget();
  has_begun_ = false;
}

namespace {

using wire::CollectiveLibrary;
using wire::DeviceTimes;

constexpr char kVersionFunction[] = "ncclGetVersion";
using GetVersion = int (*)(int*);

GetVersion FindVersionFunction(const Dl_info& module) {
  void* const library =
      module.dli_fname == nullptr ? nullptr : dlopen(module.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  void* found = nullptr;
  if (library != nullptr) {
    found = dlsym(library, kVersionFunction);
    dlclose(library);  // It stays loaded, because it runs.
  }
  // The program itself, into which the library may be linked, has no name that dlopen takes.
  if (found == nullptr) found = dlsym(RTLD_DEFAULT, kVersionFunction);
  Dl_info other = {};
  const bool same =
      found != nullptr && dladdr(found, &other) != 0 && other.dli_fbase == module.dli_fbase;
  return same ? reinterpret_cast<GetVersion>(found) : nullptr;
}

}  // namespace

Library LibraryAt(const void* address) {
  Library library;
  Dl_info module = {};
  if (address == nullptr || dladdr(address, &module) == 0) return library;
  const GetVersion get = FindVersionFunction(module);
  if (get == nullptr || get(&library.version) != 0) {
    library.version = 0;
    return library;
  }
  const std::string_view path = module.dli_fname == nullptr ? "" : module.dli_fname;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  library.kind = name.find("rccl") == std::string_view::npos ? CollectiveLibrary::kNccl
                                                             : CollectiveLibrary::kRccl;
  return library;
}

DeviceTimes DeviceTimesOf(const Library& library) {
  constexpr int kFirstWithTimes = 22700;
  // RCCL 2.27 crashed on them (https://github.com/ROCm/rccl/pull/1973).
  constexpr int kFirstOfRccl = 22800;
  // With a profiler, NCCL 2.30.3 crashed (https://github.com/NVIDIA/nccl/issues/2112).
  constexpr int kCrashed = 23003;
  // Since 2.31 the kernels write more stamps whenever the devices' times are asked for, which costs
  // 4 to 13 % of small all-reduces (https://github.com/NVIDIA/nccl/issues/2355). No release is
  // known that mends it.
  constexpr int kFirstSlow = 23100;
  if (library.version == 0) return DeviceTimes::kOtherLibrary;
  const int first = library.kind == CollectiveLibrary::kRccl ? kFirstOfRccl : kFirstWithTimes;
  const bool good =
      library.version >= first && library.version < kFirstSlow && library.version != kCrashed;
  return good ? DeviceTimes::kOnRequest : DeviceTimes::kSlowVersion;
}

}  // namespace strobe::nccl
