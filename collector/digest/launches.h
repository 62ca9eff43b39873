// When the host launched work on devices, by the process and the id that join both. A trace has
// millions of launches, so they are kept packed: as differences from the one before.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/xplane/varint.h"

namespace strobe::digest {

struct Launch {
  std::uint64_t key = 0;
  std::int64_t begin_ps = 0;
};

// Launches in ascending order of their keys.
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
    wire::VarintReader others_{std::string_view()};
    Launch launch_{};
  };

  // No key may be smaller than the one before.
  void Append(const Launch& launch);
  // Gives back the memory that is left over. Call it after the last Append.
  void Close();
  // The first launch with this key.
  std::optional<Launch> Find(std::uint64_t key) const;
  std::size_t size() const { return size_; }
  // Only for a run with launches.
  std::uint64_t first_key() const { return blocks_.front().first.key; }
  std::uint64_t last_key() const { return last_.key; }

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
    recent_.push_back({KeyOf(process, correlation), begin_ps});
    if (recent_.size() == kRunLaunches) PackRecent();
  }
  // Call it after the last Add.
  void Sort();
  // When the first launch with the id began; none if there is none.
  std::optional<std::int64_t> BeginOf(std::uint64_t process, std::int64_t correlation) const;
  bool empty() const { return recent_.empty() && runs_.empty(); }

 private:
  static constexpr std::size_t kRunLaunches = std::size_t{1} << 16;
  static std::uint64_t KeyOf(std::uint64_t process, std::int64_t correlation) {
    return static_cast<std::uint64_t>(correlation) ^ process;
  }
  void PackRecent();
  void Merge();

  std::vector<Launch> recent_{};  // Not packed yet, as they were added.
  std::vector<LaunchRun> runs_{};
};

}  // namespace strobe::digest
