// Which of the ends that share an id belong together, if more than one event is on both sides: an
// id that is used again, or a flow through several events.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace strobe::xplane {

// Calls `link(out, in)` for each pair. Both lists are sorted by `begin_ps`. With as many on both
// sides, the first to begin is linked with the first, the second with the second, and so on: clocks
// of devices may be off, so that a consumer seems to begin before its producer. Otherwise, and if
// an event is on both sides (`has_middle`), each consumer is linked with the latest producer that
// begins before it, or else with the first one. `same(out, in)`: both are of one event.
template <typename End, typename Same, typename Link>
void LinkEnds(const std::vector<End>& outs, const std::vector<End>& ins, bool has_middle,
              const Same& same, const Link& link) {
  if (!has_middle && outs.size() == ins.size()) {
    for (std::size_t i = 0; i < outs.size(); ++i) link(outs[i], ins[i]);
    return;
  }
  std::size_t before = 0;  // The producers that begin before the consumer, or with it.
  for (const End& to : ins) {
    while (before < outs.size() && outs[before].begin_ps <= to.begin_ps) ++before;
    std::size_t i = std::max<std::size_t>(before, 1) - 1;
    if (i > 0 && same(outs[i], to)) --i;
    link(outs[i], to);
  }
}

}  // namespace strobe::xplane
