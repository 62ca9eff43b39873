#include "agent/nccl/chain.h"

#include <dlfcn.h>
#include <strings.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace strobe::nccl {
namespace {

constexpr int kWithinGroup =
    kCollective | kTransfer | kProxyOperation | kProxyStep | kKernelChannel | kNetPlugin;
constexpr int kOfCopies = kCopyCollective | kCopySync | kCopyBatch;
constexpr int kOfCollective =
    kCollective | kProxyOperation | kProxyStep | kKernelChannel | kNetPlugin;
constexpr int kOfTransfer = kTransfer | kProxyOperation | kProxyStep | kKernelChannel | kNetPlugin;

// The bits that a version of the interface knows.
int KnownBits(int version) {
  constexpr int kLast4 = kNetPlugin, kLast5 = kKernelLaunch, kLast6 = kCopyBatch;
  const int last = version <= 4 ? kLast4 : version == 5 ? kLast5 : kLast6;
  return 2 * last - 1;
}

// Bits of a mask, any of which makes the library send events of this type.
int BitsThatBring(std::uint64_t type) {
  switch (type) {
    case kGroupCall:
      return kGroup | kWithinGroup | kGroupCall | kCollectiveCall | kTransferCall | kKernelLaunch |
             kOfCopies;
    case kCollectiveCall:
      return kCollectiveCall | kOfCollective | kOfCopies;
    case kTransferCall:
      return kTransferCall | kOfTransfer;
    case kGroup:
      return kGroup | kWithinGroup;
    case kCollective:
      return kOfCollective;
    case kTransfer:
      return kOfTransfer;
    default:
      return 0;
  }
}

void* OpenCandidate(const PluginCandidate& candidate) {
  const int flags = RTLD_NOW | RTLD_LOCAL | (candidate.loaded_only ? RTLD_NOLOAD : 0);
  return dlopen(candidate.library.empty() ? nullptr : candidate.library.c_str(), flags);
}

}  // namespace

std::vector<PluginCandidate> PluginCandidates(const char* named, const char* net) {
  const std::string name = named == nullptr ? "" : named;
  // A reference to a variable that nobody set stays as it is; see operator/admission.
  const bool is_named = !name.empty() && !name.starts_with("$(");
  std::vector<PluginCandidate> all;
  if (is_named && strcasecmp(name.c_str(), "none") == 0) return all;
  if (is_named && name == "STATIC_PLUGIN") return {{.library = "", .loaded_only = true}};
  if (is_named) {
    all.push_back({.library = name});
    if (name.find('/') == std::string::npos)
      all.push_back({.library = "libnccl-profiler-" + name + ".so"});
  } else {
    all.push_back({.library = "libnccl-profiler.so"});
    all.push_back({.library = "librccl-profiler.so"});
  }
  // Without one of these, the library looks into its network's plugin.
  if (net != nullptr && *net != '\0' && strcasecmp(net, "none") != 0) {
    all.push_back({.library = net, .loaded_only = true});
    all.push_back({.library = std::string("libnccl-net-") + net + ".so", .loaded_only = true});
  }
  for (const char* library : {"libnccl-net.so", "librccl-net.so"})
    all.push_back({.library = library, .loaded_only = true});
  return all;
}

bool Chain::Take(void* library, int interface) {
  constexpr std::array<const char*, 3> kNames = {"ncclProfiler_v4", "ncclProfiler_v5",
                                                 "ncclProfiler_v6"};
  for (int version = interface; version >= 4; --version) {
    void* const found = dlsym(library, kNames[static_cast<std::size_t>(version - 4)]);
    if (found == nullptr) continue;
    // Our own library, which may be named twice.
    Dl_info theirs = {}, ours = {};
    if (dladdr(found, &theirs) != 0 &&
        dladdr(reinterpret_cast<const void*>(&kWithinGroup), &ours) &&
        theirs.dli_fbase == ours.dli_fbase)
      return false;
    if (version == 4)
      older_ = static_cast<PluginV4*>(found);
    else
      newer_ = static_cast<PluginV5*>(found);
    version_ = version;
    return true;
  }
  return false;
}

void Chain::Find(int interface) {
  for (const PluginCandidate& candidate :
       PluginCandidates(std::getenv("STROBE_NCCL_CHAIN"), std::getenv("NCCL_NET_PLUGIN"))) {
    void* const library = OpenCandidate(candidate);
    if (library == nullptr) continue;
    if (Take(library, interface)) return;
    dlclose(library);
  }
}

int Chain::mask() const {
  return version_ == 0 ? 0 : __atomic_load_n(&mask_, __ATOMIC_RELAXED) & KnownBits(version_);
}

bool Chain::Init(void** context, const ChainedCommunicator& with) {
  if (newer_ != nullptr)
    return newer_->init(context, with.id, &mask_, with.name, with.nodes, with.ranks, with.rank,
                        with.logger) == kSuccess;
  return older_ != nullptr && older_->init(context, &mask_, with.name, with.id, with.nodes,
                                           with.ranks, with.rank, with.logger) == kSuccess;
}

bool Chain::Wants(std::uint64_t type, bool marked) const {
  if (version_ == 0 || (type & static_cast<std::uint64_t>(KnownBits(version_))) == 0) return false;
  if (type == kKernelChannel) return marked;
  const int bits = BitsThatBring(type);
  // Nobody else asks for the remaining types, so that the library sends them to the other only.
  return bits == 0 || (mask() & bits) != 0;
}

EventV4 AsVersion4(const EventV5& event) {
  EventV4 made = {};
  made.type = static_cast<std::uint8_t>(event.type);
  made.parent = event.parent;
  made.rank = event.rank;
  if (event.type == kCollective) {
    made.collective = event.collective.call;
    made.parent = event.collective.parent_group;
  } else if (event.type == kTransfer) {
    made.transfer = event.transfer.call;
    made.parent = event.transfer.parent_group;
  } else {
    std::memcpy(made.bytes, event.bytes, sizeof made.bytes);
  }
  return made;
}

int Chain::Start(void* context, void** handle, const EventV5& event) {
  if (newer_ != nullptr) {
    EventV5 copy = event;
    return newer_->start(context, handle, &copy);
  }
  if (older_ == nullptr) return kSuccess;
  EventV4 copy = AsVersion4(event);
  return older_->start(context, handle, &copy);
}

int Chain::Stop(void* handle) {
  if (newer_ != nullptr) return newer_->stop(handle);
  return older_ != nullptr ? older_->stop(handle) : kSuccess;
}

int Chain::State(void* handle, int state, StateDetails* details) {
  if (newer_ != nullptr) return newer_->state(handle, state, details);
  if (older_ == nullptr || state > kLastOfVersion4) return kSuccess;
  return older_->state(handle, state, details);
}

int Chain::Finish(void* context) {
  if (newer_ != nullptr) return newer_->finish(context);
  return older_ != nullptr ? older_->finish(context) : kSuccess;
}

}  // namespace strobe::nccl
