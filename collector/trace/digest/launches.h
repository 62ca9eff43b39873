// When the host launched work on devices, by the process and the id that join both. A trace has
// millions of launches, so they are kept packed: as differences from the one before.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "collector/trace/xplane/varint.h"

namespace strobe::digest {

struct Launch {
  std::uint64_t key = 0;
  std::int64_t begin_ps = 0;

  // clang-tidy 14 takes the 0 that `<=` compares with for a null pointer.
  auto operator<=>(const Launch&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Launches in ascending order of their keys and, with the same key, of their times.
class LaunchRun {
 public:
  // Reads the launches in order.
  class Cursor {
   public:
    explicit Cursor(const LaunchRun& run, std::size_t block = 0) : run_(&run), block_(block) {
      EnterBlock();
    }
    bool valid() const { return block_ < run_->blocks_.size(); }
    const Launch& launch() const { return launch_; }
    void Next();

   private:
    void EnterBlock();

    const LaunchRun* run_;
    std::size_t block_, left_ = 0;  // `left_`: the launches of the block from this one on.
    wire::VarintReader rest_{std::string_view()};
    Launch launch_{};
  };

  // No launch may come before the one before.
  void Append(const Launch& launch);
  // Gives back the memory that is left over. Call it after the last Append.
  void Close();
  // The last launch with the key of `wanted` that begins no later; without one, the first.
  std::optional<Launch> Find(const Launch& wanted) const;
  std::size_t size() const { return size_; }
  // Only for a run with launches.
  const Launch& first() const { return blocks_.front().first; }
  const Launch& last() const { return last_; }

 private:
  // So many launches are read to find one of them.
  static constexpr std::size_t kBlockLaunches = 32;
  struct Block {
    Launch first{};
    std::size_t at = 0;  // Where the others begin in packed_.
  };

  std::vector<Block> blocks_{};
  std::string packed_{};
  std::size_t size_ = 0;
  Launch last_{};
};

class Launches {
 public:
  // `process`: of the plane, as xplane::ProcessOf tells it.
  void Add(std::uint64_t process, std::int64_t correlation, std::int64_t begin_ps) {
    if (!processes_.contains(process)) processes_.insert(process);
    recent_.push_back({KeyOf(process, correlation), begin_ps});
    if (recent_.size() == kRunLaunches) PackRecent();
  }
  // Call it after the last Add.
  void Sort();
  // When the launch with the id began that work which begins at `at_ps` belongs to: an id may be
  // used again, and its work begins after it. None if there is none.
  std::optional<std::int64_t> BeginOf(std::uint64_t process, std::int64_t correlation,
                                      std::int64_t at_ps) const;
  bool empty() const { return recent_.empty() && runs_.empty(); }
  // Whether any launch of the process is known.
  bool Knows(std::uint64_t process) const { return processes_.contains(process); }

 private:
  static constexpr std::size_t kRunLaunches = std::size_t{1} << 16;
  static std::uint64_t KeyOf(std::uint64_t process, std::int64_t correlation) {
    return static_cast<std::uint64_t>(correlation) ^ process;
  }
  void PackRecent();
  void Merge();

  std::vector<Launch> recent_{};  // Not packed yet, as they were added.
  std::vector<LaunchRun> runs_{};
  std::set<std::uint64_t> processes_{};
};

}  // namespace strobe::digest
