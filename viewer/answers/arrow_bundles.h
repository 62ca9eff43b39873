// All arrows of a window, few enough to be drawn: those that could not be told apart on the screen
// are joined to a bundle.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

struct BundleRequest {
  std::vector<std::uint32_t> rows{};      // Numbers of the run's rows.
  std::int64_t begin_ps = 0, end_ps = 0;  // On the run's clock.
  // Arrows between the same two tracks whose begins, and whose ends, lie in the same 2^level ps are
  // joined. At most kMaxBundleLevel.
  std::uint32_t level = 0;
  std::uint32_t limit = 10'000;  // The most bundles; at least 1.
  // Asked between tracks; once it is true, the arrows of further tracks are left out, because
  // nobody waits for them. May be null.
  std::function<bool()> is_gone{};
};
inline constexpr std::uint32_t kMaxBundleLevel = 62;

// One of the bundle's arrows stands for all of them.
struct Bundle {
  struct End {
    std::uint32_t row = 0, track = 0;
    std::int64_t at_ps = 0;  // On the run's clock.
  };
  // The begin is where the work was started: while the first event ran, or at its end.
  End from{}, to{};
  std::uint64_t count = 0;
};

struct Bundles {
  std::uint64_t total = 0;  // Arrows in the window.
  std::uint64_t drawn = 0;  // Arrows in `bundles`; fewer if the rows make more than `limit` pairs.
  std::vector<Bundle> bundles{};  // In no order.
};

// The arrows with an end that lies on one of the rows and touches the window. If they make more
// than `limit` bundles, the level is raised until they do not, and in the end arrows between any
// tracks of the same two rows are joined.
Bundles BundleArrows(const LoadedRun& run, const BundleRequest& request);

}  // namespace strobe::viewer
