// Ids of arrows for formats in which an id is that of one arrow. A trace may use an id for many:
// the launch of a graph shares one with all of the graph's kernels.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/trace/xplane/flows.h"
#include "collector/trace/xplane/space.h"

namespace strobe::convert {

class LinkIds {
 public:
  // `trace`: the number of the trace among those that are written together. Reads all events once,
  // and again if an id is one of several arrows. DataLoss if the trace is damaged.
  static absl::StatusOr<LinkIds> Of(const xplane::Space& space, std::size_t trace);

  // Calls `visit(std::uint64_t id, bool incoming)` for each end of an arrow. The event must be one
  // of the trace; `flows` reads its plane.
  template <typename Visit>
  absl::Status Read(const xplane::FlowReader& flows, const xplane::Event& event,
                    const Visit& visit) const {
    bool replaced = false;
    const absl::Status status = flows.Read(event, [&](std::uint64_t id, bool incoming) {
      if (shared_.empty() || !std::ranges::binary_search(shared_, id))
        visit(id, incoming);
      else
        replaced = true;
    });
    if (!replaced) return status;
    const char* const at = event.bytes.data();
    for (auto end = std::ranges::lower_bound(ends_, at, {}, &End::at);
         end != ends_.end() && end->at == at; ++end)
      visit(end->id, end->incoming);
    return status;
  }

 private:
  struct End {
    const char* at = nullptr;  // Where the event's bytes are.
    std::uint64_t id = 0;
    bool incoming = false;
  };
  friend class LinkIdMaker;

  std::vector<std::uint64_t> shared_{};  // The ids of several arrows, sorted.
  std::vector<End> ends_{};  // The ends of these arrows, by event, with ids of their own.
};

}  // namespace strobe::convert
