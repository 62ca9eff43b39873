#include "collector/trace/convert/link_ids.h"

#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "collector/trace/xplane/links.h"
#include "collector/trace/xplane/names.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"

namespace strobe::convert {
namespace {

// Calls `visit(event, begin_ps, id, incoming)` for each end of an arrow.
template <typename Visit>
absl::Status ForEachEnd(const xplane::Space& space, std::size_t trace, const Visit& visit) {
  for (const xplane::Plane& plane : space.planes) {
    const xplane::FlowReader flows(plane, trace);
    if (!flows.any()) continue;
    for (const xplane::Line& line : plane.lines) {
      if (line.name == xplane::kCounterLine) continue;
      absl::Status status;
      constexpr std::int64_t kMaxNs = std::numeric_limits<std::int64_t>::max() / 1000;
      const std::int64_t origin_ps = std::clamp(line.timestamp_ns, -kMaxNs, kMaxNs) * 1000;
      RETURN_IF_ERROR(ForEachEvent(line, [&](const xplane::Event& event) {
        if (event.occurrences != 0) return;
        status.Update(flows.Read(event, [&](std::uint64_t id, bool incoming) {
          visit(event, AddSaturated(origin_ps, event.offset_ps), id, incoming);
        }));
      }));
      RETURN_IF_ERROR(status);
    }
  }
  return absl::OkStatus();
}

// The ids that are in the sorted list more than once.
std::vector<std::uint64_t> Repeated(const std::vector<std::uint64_t>& ids) {
  std::vector<std::uint64_t> repeated;
  for (std::size_t i = 1; i < ids.size(); ++i) {
    if (ids[i] == ids[i - 1] && (repeated.empty() || repeated.back() != ids[i]))
      repeated.push_back(ids[i]);
  }
  return repeated;
}

// The id of the arrow with this number of those that share an id.
std::uint64_t IdOf(std::uint64_t shared, std::uint64_t number) {
  std::uint64_t id = (shared ^ number) * 0xbf58476d1ce4e5b9 + number;
  id = (id ^ id >> 27) * 0x94d049bb133111eb;
  return id ^ id >> 31;
}

}  // namespace

class LinkIdMaker {
 public:
  struct SharedEnd {
    std::uint64_t id = 0;
    std::int64_t begin_ps = 0;
    const char* at = nullptr;
    bool incoming = false;
  };

  LinkIdMaker(const xplane::Space& space, std::size_t trace) : space_(space), trace_(trace) {}

  absl::StatusOr<LinkIds> Make() {
    RETURN_IF_ERROR(FindShared());
    if (made_.shared_.empty()) return std::move(made_);
    std::vector<SharedEnd> ends;
    RETURN_IF_ERROR(ForEachEnd(
        space_, trace_,
        [&](const xplane::Event& event, std::int64_t begin_ps, std::uint64_t id, bool incoming) {
          if (std::ranges::binary_search(made_.shared_, id))
            ends.push_back(
                {.id = id, .begin_ps = begin_ps, .at = event.bytes.data(), .incoming = incoming});
        }));
    std::ranges::sort(ends, {}, [](const SharedEnd& end) {
      return std::tuple(end.id, end.incoming, end.begin_ps, end.at);
    });
    std::vector<std::uint64_t> chains;
    for (auto begin = ends.begin(); begin != ends.end();) {
      const auto end =
          std::find_if(begin, ends.end(), [&](const SharedEnd& e) { return e.id != begin->id; });
      if (!Join({begin, end})) chains.push_back(begin->id);
      begin = end;
    }
    std::erase_if(made_.shared_,
                  [&](std::uint64_t id) { return std::ranges::binary_search(chains, id); });
    std::ranges::sort(made_.ends_, {},
                      [](const auto& end) { return std::tuple(end.at, end.incoming, end.id); });
    return std::move(made_);
  }

 private:
  // Finds the ids of which several ends are on one side.
  absl::Status FindShared() {
    std::vector<std::uint64_t> outs, ins;
    RETURN_IF_ERROR(ForEachEnd(
        space_, trace_, [&](const xplane::Event&, std::int64_t, std::uint64_t id, bool incoming) {
          (incoming ? ins : outs).push_back(id);
        }));
    for (std::vector<std::uint64_t>* ids : {&outs, &ins}) {
      if (!std::ranges::is_sorted(*ids)) std::ranges::sort(*ids);
      const std::vector<std::uint64_t> repeated = Repeated(*ids);
      made_.shared_.insert(made_.shared_.end(), repeated.begin(), repeated.end());
    }
    std::ranges::sort(made_.shared_);
    made_.shared_.erase(std::unique(made_.shared_.begin(), made_.shared_.end()),
                        made_.shared_.end());
    return absl::OkStatus();
  }

  // Gives each arrow of an id one of its own. False if they are a chain of one event after the
  // other, which the formats know.
  bool Join(std::span<const SharedEnd> group) {
    std::vector<SharedEnd> outs, ins;
    std::vector<const char*> producers, middle;
    for (const SharedEnd& end : group) {
      (end.incoming ? ins : outs).push_back(end);
      if (!end.incoming) producers.push_back(end.at);
    }
    std::ranges::sort(producers);
    for (const SharedEnd& end : ins) {
      if (std::ranges::binary_search(producers, end.at)) middle.push_back(end.at);
    }
    if (!middle.empty() && outs.size() <= middle.size() + 1 && ins.size() <= middle.size() + 1)
      return false;
    std::uint64_t number = 0;
    const auto link = [&](const SharedEnd& from, const SharedEnd& to) {
      if (from.at == to.at) return;
      const std::uint64_t id = IdOf(from.id, ++number);
      made_.ends_.push_back({.at = from.at, .id = id});
      made_.ends_.push_back({.at = to.at, .id = id, .incoming = true});
    };
    if (outs.empty() || ins.empty()) return true;
    if (ins.size() == 1 && middle.empty()) {
      for (const SharedEnd& from : outs) link(from, ins.front());
      return true;
    }
    xplane::LinkEnds(
        outs, ins, !middle.empty(),
        [](const SharedEnd& a, const SharedEnd& b) { return a.at == b.at; }, link);
    return true;
  }

  const xplane::Space& space_;
  const std::size_t trace_;
  LinkIds made_{};
};

absl::StatusOr<LinkIds> LinkIds::Of(const xplane::Space& space, std::size_t trace) {
  return LinkIdMaker(space, trace).Make();
}

}  // namespace strobe::convert
