// The file in which a program tells its collectives, for the program and for the sidecar. POSIX and
// the C++ standard library only; no exceptions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/wire/collective_layout.h"

namespace strobe::wire {

// A copy of a record.
struct CollectiveCopy {
  std::uint64_t number = 0;
  std::uint64_t begin = 0, launched = 0;  // Ticks; see CollectiveRecord.
  std::uint64_t ordinal = 0, count = 0, sequence = 0;
  CallKey key{};
  CollectiveHow how{};
  std::uint64_t device_begin = 0, device_end = 0, end_seen_ns = 0;

  // The devices' times of all channels are there.
  bool has_device_times() const { return device_begin != 0 && device_end >= device_begin; }
};

// A copy of a communicator's entry.
struct CommunicatorCopy {
  std::uint64_t id = 0;
  int rank = 0, ranks = 0;
  bool has_ended = false;
  std::string name{};
  std::uint64_t collectives = 0, transfers = 0, launched = 0;
  std::uint64_t newest_begin = 0, newest_count = 0;
  CallKey newest{};
};

// "<stem>.nccl" of "<stem>.rings".
std::string CollectivePath(const std::string& ring_path);

class CollectiveFile {
 public:
  CollectiveFile() = default;
  ~CollectiveFile() { Close(); }
  CollectiveFile(CollectiveFile&& other) noexcept { *this = static_cast<CollectiveFile&&>(other); }
  CollectiveFile& operator=(CollectiveFile&& other) noexcept;
  CollectiveFile(const CollectiveFile&) = delete;
  CollectiveFile& operator=(const CollectiveFile&) = delete;

  // For the program. Creates the file, with all its space reserved, because a write to a page
  // without space would kill the program. Sets errno and returns a null file on failure.
  static CollectiveFile Create(const std::string& path);

  // For the sidecar. Maps the file without looking at its content. Until Check returns true, only
  // memory() and size() may be used.
  static CollectiveFile Map(const std::string& path);
  // True if it is such a file, of this version, whose header matches its size.
  bool Check();

  explicit operator bool() const { return header_ != nullptr; }
  CollectiveHeader* header() const { return header_; }
  void* memory() const { return header_; }
  std::size_t size() const { return size_; }
  std::uint32_t max_records() const { return max_records_; }
  CollectiveCommunicator* communicator(std::uint32_t index) const;
  CollectiveRecord* record(std::uint64_t number) const;

  // For the sidecar: copies. False if the record was overwritten, or is not complete.
  bool Read(std::uint64_t number, CollectiveCopy& to) const;
  std::vector<CommunicatorCopy> Communicators() const;

  void Close();

 private:
  char* At(std::uint64_t offset) const { return reinterpret_cast<char*>(header_) + offset; }

  CollectiveHeader* header_ = nullptr;
  std::size_t size_ = 0;
  // Copies of the header's values, because the other side can change the file.
  std::uint32_t record_bytes_ = 0, communicator_bytes_ = 0;
  std::uint32_t max_communicators_ = 0, max_records_ = 0;
};

}  // namespace strobe::wire
