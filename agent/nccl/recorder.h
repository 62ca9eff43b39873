// Writes the collectives of this process into its file. Every call is safe on any thread, waits for
// nothing and allocates nothing, except Open. POSIX and the C++ standard library only.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/wire/collective_file.h"

namespace strobe::nccl {

inline constexpr std::uint32_t kNoCommunicator = ~0u;

struct CommunicatorFacts {
  std::uint64_t id = 0;
  std::string_view name{};
  int rank = 0, ranks = 0, nodes = 0;
};

struct CallFacts {
  std::uint32_t communicator = kNoCommunicator;
  wire::CollectiveCall call{};
  wire::ElementType type{};
  int peer = -1;
  std::uint64_t count = 0;
  bool captured = false;
};

// What the library chose; see CollectiveHow.
struct LaunchFacts {
  std::uint64_t sequence = 0;
  int peer = -1;
  std::uint8_t channels = 0;
  std::string_view algorithm{}, protocol{};
};

class Recorder {
 public:
  // Creates the file. False, with errno, if that fails. What it tells of the library stays.
  bool Open(const std::string& path);
  bool is_open() const { return file_.load(std::memory_order_acquire) != nullptr; }
  // Null if it is not open.
  wire::CollectiveHeader* header() const;
  // For a forked child: the file is its parent's.
  void Forget();

  // kNoCommunicator if there is no room.
  std::uint32_t AddCommunicator(const CommunicatorFacts& facts);
  void EndCommunicator(std::uint32_t communicator);

  // The program calls the library. Returns the record's number. Call it only while it is open.
  std::uint64_t Begin(const CallFacts& facts);
  // The library has enqueued the call.
  void Launched(std::uint64_t number, const LaunchFacts& facts);
  void DeviceBegan(std::uint64_t number, std::uint64_t device_ns);
  void DeviceEnded(std::uint64_t number, std::uint64_t device_ns);
  // Which call the record is of; kOther if it is overwritten.
  wire::CollectiveCall CallOf(std::uint64_t number) const;
  std::uint64_t made() const;

 private:
  // Counts the sends and receives of each peer, so that both sides can compare them.
  std::uint64_t CountTransfer(const wire::CallKey& key);
  // Null if the record was overwritten.
  wire::CollectiveRecord* Find(std::uint64_t number) const;

  static constexpr std::size_t kPeers = 8192;
  std::atomic<wire::CollectiveFile*> file_{nullptr};
  // The peer in the high half, the count in the low one.
  std::array<std::atomic<std::uint64_t>, kPeers> peers_{};
};

}  // namespace strobe::nccl
