// The interface of NCCL's and RCCL's profiler plugins, versions 4 to 6, as far as Strobe uses it:
// our own declarations of the published layout on 64-bit Linux. The assertions at the end are the
// contract.
#pragma once
#include <cstddef>
#include <cstdint>

namespace strobe::nccl {

// Types of events, and the bits of the mask that asks for them.
enum EventBit : int {
  kGroup = 1,
  kCollective = 2,
  kTransfer = 4,
  kProxyOperation = 8,
  kProxyStep = 16,
  kProxyControl = 32,
  kKernelChannel = 64,
  kNetPlugin = 128,
  kGroupCall = 256,       // From version 5 on, as the following ones.
  kCollectiveCall = 512,  // The program calls a collective.
  kTransferCall = 1024,   // The program calls a send or a receive.
  kKernelLaunch = 2048,
  kCopyCollective = 4096,  // From version 6 on, as the following ones.
  kCopySync = 8192,
  kCopyBatch = 16384,
};

// States of events that are told behind their start.
enum EventState : int { kKernelChannelStop = 22, kLastOfVersion4 = 22 };

struct CollectiveV4 {
  std::uint64_t sequence;
  const char* function;
  const void* send_buffer;
  void* receive_buffer;
  std::size_t count;
  int root;
  const char* type;
  std::uint8_t channels, warps;
  const char *algorithm, *protocol;
};
struct CollectiveV5 {
  CollectiveV4 call;
  void* parent_group;
};
struct TransferV4 {
  const char* function;
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
  std::uint8_t channels;
};
struct TransferV5 {
  TransferV4 call;
  void* parent_group;
};
struct CollectiveCallV5 {
  const char* function;
  std::size_t count;
  const char* type;
  int root;
  void* stream;
  bool captured;
};
struct TransferCallV5 {
  const char* function;
  std::size_t count;
  const char* type;
  void* stream;
  bool captured;
};
struct KernelChannel {
  std::uint8_t channel;
  std::uint64_t device_ns;
};

struct EventV5 {  // And version 6.
  std::uint64_t type;
  void* parent;
  int rank;
  union {
    CollectiveCallV5 collective_call;
    TransferCallV5 transfer_call;
    CollectiveV5 collective;
    TransferV5 transfer;
    KernelChannel kernel;
    unsigned char bytes[88];
  };
};
struct EventV4 {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    CollectiveV4 collective;
    TransferV4 transfer;
    KernelChannel kernel;
    unsigned char bytes[80];
  };
};
union StateDetails {
  std::uint64_t device_ns;  // If the state is kKernelChannelStop.
  void* any;
};

using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

template <typename Event, typename Init>
struct Plugin {
  const char* name;
  Init init;
  int (*start)(void* context, void** handle, Event* event);
  int (*stop)(void* handle);
  int (*state)(void* handle, int state, StateDetails* details);
  int (*finish)(void* context);
};
using InitV5 = int (*)(void** context, std::uint64_t communicator, int* mask, const char* name,
                       int nodes, int ranks, int rank, Logger logger);
using InitV4 = int (*)(void** context, int* mask, const char* name, std::uint64_t communicator,
                       int nodes, int ranks, int rank, Logger logger);
using PluginV5 = Plugin<EventV5, InitV5>;  // And version 6.
using PluginV4 = Plugin<EventV4, InitV4>;

// Results of the library.
inline constexpr int kSuccess = 0;

static_assert(sizeof(void*) == 8);
static_assert(sizeof(EventV5) == 112 && offsetof(EventV5, parent) == 8 &&
              offsetof(EventV5, rank) == 16 && offsetof(EventV5, bytes) == 24);
static_assert(sizeof(EventV4) == 104 && offsetof(EventV4, parent) == 8 &&
              offsetof(EventV4, rank) == 16 && offsetof(EventV4, bytes) == 24);
static_assert(sizeof(CollectiveV4) == 80 && sizeof(CollectiveV5) == 88);
static_assert(sizeof(CollectiveCallV5) == 48 && sizeof(TransferCallV5) == 40);
static_assert(sizeof(KernelChannel) == 16 && sizeof(StateDetails) == 8);
static_assert(sizeof(PluginV5) == 48 && sizeof(PluginV4) == 48);

}  // namespace strobe::nccl
