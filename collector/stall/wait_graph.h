// Who waits for whom, by the numbers of collectives.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/stall/job_view.h"

namespace strobe::stall {

// `waiter` waits in this collective.
struct Wait {
  std::uint32_t group = 0;
  std::int64_t seq = 0;
  int waiter = 0;
  OpenOp op{};
};

struct WaitGraph {
  std::vector<Wait> waits{};  // The oldest of each rank and group, in the order of the ranks.
  std::set<int> waiting{};
  // Ranks that have not launched what others wait in, with those waits.
  std::map<int, std::vector<Wait>> lacks{};
  // Ranks that wait in what others have finished.
  std::map<int, std::vector<Wait>> lags{};
  // What ranks launched under one number of a group, where they differ.
  std::map<std::pair<std::uint32_t, std::int64_t>, std::map<int, OpenOp>> clashes{};
  std::map<int, std::size_t> blamed{};  // How many waits a rank does not answer.
  bool waits_for_dark = false;          // Does a rank wait for one that told less than the others?
};

WaitGraph GraphOf(const JobEvidence& evidence, const JobView& view);

// Ranks that left out a collective which others wait in: they went on to something that everyone
// else launched only after it.
std::vector<int> SkippersOf(const JobEvidence& evidence, const JobView& view,
                            const WaitGraph& graph);

// What groups of the same description launched under the numbers of the graph's clashes. Points
// into the view.
class Siblings {
 public:
  Siblings(const JobEvidence& evidence, const JobView& view, const WaitGraph& graph);
  // The call of groups without these ranks; empty if there is none.
  std::string OpOf(const std::string& desc, std::int64_t seq,
                   const std::map<int, OpenOp>& without) const;

 private:
  using Votes = std::map<std::string, std::size_t>;  // How many members launched a call.

  std::map<std::pair<std::string_view, std::int64_t>, std::map<const JobGroup*, Votes>> votes_{};
};

}  // namespace strobe::stall
