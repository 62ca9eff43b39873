// The layout of NCCL's profiler interface as numbers, versions 4 to 6, on 64-bit Linux. The fakes
// use these and not the agent's declarations, so that an error in those is noticed.
#pragma once
#include <cstdint>
#include <cstring>

namespace fake_nccl {

inline constexpr int kGroup = 1, kColl = 2, kP2p = 4, kProxyOp = 8, kProxyStep = 16,
                     kProxyCtrl = 32, kKernelCh = 64, kNetPlugin = 128, kGroupApi = 256,
                     kCollApi = 512, kP2pApi = 1024, kKernelLaunch = 2048, kCeColl = 4096,
                     kCeSync = 8192, kCeBatch = 16384;
inline constexpr int kKernelChStop = 22, kGroupStartApiStop = 23, kGroupEndApiStart = 24;

// Offsets in an event.
inline constexpr int kType = 0, kParent = 8, kRank = 16, kUnion = 24;
inline constexpr int kSequence = 24, kFunc = 32, kCount = 56, kRoot = 64, kDatatype = 72,
                     kChannels = 80, kAlgo = 88, kProto = 96, kParentGroup = 104;
inline constexpr int kP2pFunc = 24, kP2pDatatype = 40, kP2pCount = 48, kPeer = 56,
                     kP2pChannels = 60, kP2pParentGroup = 64;
inline constexpr int kApiFunc = 24, kApiCount = 32, kApiDatatype = 40, kApiRoot = 48;
inline constexpr int kProxyPid = 24, kChannelId = 24, kTimer = 32;
inline constexpr int kEventBytes5 = 112, kEventBytes4 = 104;

struct Event {
  alignas(8) unsigned char bytes[kEventBytes5] = {};

  template <typename T>
  void Put(int at, T value) {
    std::memcpy(bytes + at, &value, sizeof value);
  }
  template <typename T>
  T Get(int at) const {
    T value;
    std::memcpy(&value, bytes + at, sizeof value);
    return value;
  }
};

// What a plugin exports: its name and five functions.
struct Object {
  const char* name;
  void* functions[5];  // init, startEvent, stopEvent, recordEventState, finalize.
};

using InitNew = int (*)(void**, std::uint64_t, int*, const char*, int, int, int, void*);
using InitOld = int (*)(void**, int*, const char*, std::uint64_t, int, int, int, void*);
using StartEvent = int (*)(void*, void**, void*);
using StopEvent = int (*)(void*);
using RecordEventState = int (*)(void*, int, void*);
using Finalize = int (*)(void*);

}  // namespace fake_nccl
