// The tallies of all workers of a run as one, and which worker differs from the others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "collector/trace/tally/tally.h"

namespace strobe::tally {

// A worker whose time in a row is far from that of the others.
struct OddWorker {
  std::uint32_t worker = 0;
  std::int64_t total_ps = 0, median_ps = 0;  // Its time, and the median over all workers.
};

struct MergedRow {
  TallyRow sum{};             // Over the workers; max_ps is the longest of all.
  std::uint32_t workers = 0;  // How many have it.
  std::optional<OddWorker> odd{};
};

struct MergedTable {
  std::vector<MergedRow> rows{};  // The one with the most self time first.
  std::uint64_t left_out = 0;
};

struct MergedTally {
  MergedTable kernels{}, operators{}, modules{}, communication{};
  std::int64_t device_ps = 0;
  bool joins_launches = false;
};

// The worker whose value differs most from the median, if it differs by more than six robust
// standard deviations and by a tenth of the median; nullopt if there is none, and of fewer than
// three workers. A value is nullopt where a worker has none, which counts as 0 only if most have
// one.
std::optional<OddWorker> FindOdd(const std::vector<std::optional<std::int64_t>>& values);

// Takes one tally after the other, so that only the sums stay in memory.
class Merger {
 public:
  // `workers`: how many there will be.
  explicit Merger(std::size_t workers) : workers_(workers) {}

  // Call it once for each worker that can be read.
  void Add(std::uint32_t worker, const Tally& tally);
  MergedTally Finish() &&;

 private:
  // Rows by kind, name and group.
  struct Table {
    std::vector<MergedRow> rows{};
    std::vector<std::vector<std::optional<std::int64_t>>> times{};  // By row, then worker.
    std::unordered_map<std::string, std::size_t> numbers{};
    std::uint64_t left_out = 0;
  };
  // Rows in one table, and times of single workers in it. Further rows are left out.
  static constexpr std::size_t kMaxMerged = 4 * kMaxRows, kMaxTimes = std::size_t{1} << 22;

  void AddTable(std::uint32_t worker, const TallyTable& from, Table& to) const;
  static MergedTable FinishTable(Table&& table);

  const std::size_t workers_;
  Table kernels_{}, operators_{}, modules_{}, communication_{};
  std::int64_t device_ps_ = 0;
  bool joins_launches_ = false;
};

}  // namespace strobe::tally
