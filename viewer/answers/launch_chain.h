// How an event came to run: the launch of a device's work, and what was open on the host around it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "viewer/answers/arrows.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

struct ChainLink {
  // "launch", "capture", "forward operator", or as tally::HostKindName: "operator", "module", ...
  std::string_view what{};
  EventRef event{};
};

struct LaunchChain {
  static constexpr std::size_t kMaxLinks = 200;

  // The launch, and what is around it, from the innermost event outwards. Of an event of the host,
  // what is around the event itself.
  std::vector<ChainLink> links{};
  // The operator of the forward pass of which one of these is the backward operator, and what is
  // around it.
  std::vector<ChainLink> forward{};
  // What is known of work that a CUDA graph launched, which has no operator around its launch;
  // empty for other work.
  std::string graph{};
  // Work of a CUDA graph: the launch while the graph was captured, and what is around that.
  std::vector<ChainLink> captured{};
};

// `track` counts within the row. DataLoss when the trace is damaged.
absl::StatusOr<LaunchChain> ChainOf(const LoadedRun& run, std::uint32_t row, std::uint32_t track,
                                    std::uint32_t ordinal);

}  // namespace strobe::viewer
