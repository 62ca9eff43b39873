// What ran in a trace, summed by name: the work of devices, the operators and modules that launched
// it, and the collectives. README.md defines every quantity. Times are in ps.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/digest/digest.h"
#include "collector/trace/index/index.h"
#include "collector/trace/xplane/space.h"

namespace strobe::tally {

// The rows of a table that are kept, those with the most self time.
inline constexpr std::size_t kMaxRows = 2000;

// A trace that is open, with its index. All must outlive what is made of them.
struct Source {
  const index::Index* index = nullptr;
  // The planes of the trace, and those with the lines that the index has derived. Their own lines
  // are not needed.
  const xplane::Space *space = nullptr, *derived = nullptr;
  std::string_view trace{};  // The bytes that the index was made from.
  // Asked now and then; once it is true, the result is Cancelled. May be null.
  std::function<bool()> is_gone{};

  // The plane whose names the events of a row use; null if the index does not fit the trace.
  const xplane::Plane* PlaneOf(const index::Row& row) const;
  // The bytes of an event of a row. DataLoss when the index does not fit the trace.
  absl::StatusOr<std::string_view> BytesOf(const index::Row& row, const index::Entry& entry) const;
  // The text of a stat of such an event; empty if it has none. `plane`: as PlaneOf returns it.
  absl::StatusOr<std::string_view> TextOf(const xplane::Plane& plane, const index::Row& row,
                                          const index::Entry& entry, std::int64_t stat_id) const;
};

// Texts refer to the trace or to its index.
struct TallyRow {
  std::string_view name{};
  std::string_view kind{};  // "kernel", "copy", "operator", ...
  std::uint64_t count = 0;
  // Self time is the total less the time of the table's events inside, on the same line.
  std::int64_t total_ps = 0, self_ps = 0, max_ps = 0;

  // Operators and modules: the work of devices that was launched inside, and the part of it that
  // was not launched inside of an inner row of the table.
  std::int64_t device_ps = 0, device_self_ps = 0;

  // Kernels: how the first one was launched, as XLA writes it: "regs:32 static_shared:0 ...".
  std::string_view launch{};
  bool launches_differ = false;
  // The sum of occupancy (in %) times length, over the kernels that tell it, and of their lengths.
  double occupancy_ps = 0, occupancy_of_ps = 0;
  std::string_view launched_by{};  // The innermost operator around the first launch.
  bool launchers_differ = false;

  // XLA's operations: their category, and what the compiler says of the work of all of them; 0 = it
  // does not.
  std::string_view category{};
  std::uint64_t flops = 0, accessed_bytes = 0;

  // Operators: the inputs of the first one, as PyTorch writes them: "[[20, 784], [784, 128]]".
  std::string_view shapes{};
  bool shapes_differ = false;

  // Collectives.
  digest::CollectiveKind collective = digest::CollectiveKind::kOther;
  std::string group{};      // The communicator's name.
  std::uint32_t ranks = 0;  // In the group; 0 = not told.
  std::uint64_t bytes = 0;  // The sum over the calls; 0 = not told.
  // The time during which the device computed nothing; nullopt = not known.
  std::optional<std::int64_t> exposed_ps{};
  double bytes_per_s = 0;  // The algorithm's bandwidth; 0 = not known.

  // The bandwidth of the busiest link that an ideal algorithm needs; 0 = not known.
  double BusBytesPerSecond() const;
};

struct TallyTable {
  std::vector<TallyRow> rows{};  // The one with the most self time first.
  std::uint64_t left_out = 0;    // Rows beyond kMaxRows.
};

struct Tally {
  TallyTable kernels{}, operators{}, modules{}, communication{};
  // The sum of the self times of all work of devices, of which shares are told.
  std::int64_t device_ps = 0;
  bool joins_launches = false;  // Some operator or module is known to have launched work.
};

// DataLoss when the trace is damaged, or does not fit the index.
absl::StatusOr<Tally> TallyTrace(const Source& source);

// The bytes that the busiest link carries for each byte of the collective's size, with the ranks of
// the group, as NVIDIA's nccl-tests define it; 0 if it is not known.
double BusFactor(digest::CollectiveKind kind, std::uint32_t ranks);

// Whether a kernel of this name uses Tensor Cores, by the patterns of XProf and of PyTorch's plugin
// for TensorBoard, because traces do not tell it. False: it is not known to.
bool UsesTensorCores(std::string_view kernel);

}  // namespace strobe::tally
