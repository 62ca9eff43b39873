// Arrows from what launched work to the work: those of one event, and those of a window, few enough
// to be drawn.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// An event as the page names it: track within the row, ordinal on the track.
struct EventRef {
  std::uint32_t row = 0, track = 0, ordinal = 0;
  std::int64_t begin_ps = 0, duration_ps = 0;  // On the run's clock.
  std::string_view name{};
};

// `track` is a number within the worker's index. The name points into the run.
EventRef ReferTo(const LoadedRun& run, std::uint32_t worker, std::uint32_t track,
                 std::uint32_t ordinal);

struct Arrow {
  EventRef from{}, to{};
};

// The arrows that begin or end at one event, at most `limit`.
std::vector<Arrow> ArrowsOf(const LoadedRun& run, std::uint32_t row, std::uint32_t track,
                            std::uint32_t ordinal, std::size_t limit);

// All arrows of a window: those that could not be told apart on the screen are joined to a bundle.
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
