#include "collector/trace/analysis/derived_lines.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "collector/trace/analysis/steps.h"
#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/flows.h"
#include "collector/trace/xplane/lanes.h"
#include "collector/trace/xplane/names.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::analysis {
namespace {

using xplane::Line;
using xplane::Plane;
using xplane::PlaneBuilder;
using xplane::Stat;

// The id of the first derived line, as XLA gives it.
constexpr std::int64_t kFirstLine = 0xdeadbeef;
// The lines by their order in XProf, counted from kFirstLine.
enum class XlaLine {
  kSteps = 0,
  kLaunches = 1,
  kScopes = 2,
  kFrameworkOps = 3,
  kModules = 4,
  kOps = 5,
  kSourceCode = 7,
};
constexpr std::string_view kSteps = "Steps", kLaunches = "Launch Stats",
                           kScopes = "Framework Name Scope";

struct Launch {
  std::optional<std::size_t> step{};  // The number of the step that it is in.
  std::int64_t begin_ps = 0, end_ps = 0;
};
// By process and correlation id, and by begin: a program may use an id again.
using LaunchKey = std::pair<std::uint64_t, std::int64_t>;
using Launches = std::vector<std::pair<LaunchKey, Launch>>;

// The last launch with an id that begins no later than its work or, without one, the first.
const Launch* FindLaunch(const Launches& launches, std::uint64_t id, std::int64_t work_begin_ps) {
  const auto later =
      std::upper_bound(launches.begin(), launches.end(), LaunchKey{id, work_begin_ps},
                       [](const LaunchKey& key, const auto& launch) { return key < launch.first; });
  if (later != launches.begin() && std::prev(later)->first.first == id)
    return &std::prev(later)->second;
  return later != launches.end() && later->first.first == id ? &later->second : nullptr;
}

// The step that contains a moment. Of several, the one that began last.
std::optional<std::size_t> StepAt(const std::vector<Step>& steps, std::int64_t at_ps) {
  auto next = std::upper_bound(steps.begin(), steps.end(), at_ps,
                               [](std::int64_t t, const Step& step) { return t < step.begin_ps; });
  // Steps of several threads may overlap, so that the step before is not always the right one.
  constexpr int kLooks = 64;
  for (int i = 0; i < kLooks && next != steps.begin(); ++i) {
    --next;
    if (at_ps < next->end_ps) return static_cast<std::size_t>(next - steps.begin());
  }
  return std::nullopt;
}

absl::Status ReadLaunches(const xplane::Space& space, const std::vector<Step>& steps,
                          Launches& launches) {
  for (const Plane& plane : space.planes) {
    const std::int64_t correlation = plane.StatId("correlation_id");
    if (correlation == 0 || !xplane::MayHaveThreads(plane.name)) continue;
    const std::uint64_t process = xplane::ProcessOf(plane.name);
    for (const Line& line : plane.lines) {
      ASSIGN_OR_RETURN(const std::vector<xplane::Placed> events, xplane::PlaceEvents(line));
      for (const xplane::Placed& event : events) {
        RETURN_IF_ERROR(ForEachInteger(event.event, [&](std::int64_t name_id, std::int64_t value) {
          if (name_id == correlation && value != 0)
            launches.push_back({{process ^ static_cast<std::uint64_t>(value), event.begin_ps},
                                {StepAt(steps, event.begin_ps), event.begin_ps, event.end_ps}});
        }));
      }
    }
  }
  std::stable_sort(launches.begin(), launches.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return absl::OkStatus();
}

// The stats of an event that become lines.
enum DerivedStat { kModule, kOp, kFrameworkOp, kSource, kDerivedStats };
constexpr std::array<std::string_view, kDerivedStats> kStats = {"hlo_module", "hlo_op", "tf_op",
                                                                "source"};
constexpr std::array<std::string_view, kDerivedStats> kLines = {"XLA Modules", "XLA Ops",
                                                                "Framework Ops", "Source code"};

// An event on a device.
struct Work {
  std::int64_t begin_ps = 0, end_ps = 0;
  std::optional<std::size_t> step{};
  const Launch* launch = nullptr;  // Set when `step` is.
  std::array<std::string_view, kDerivedStats> stats{};
};

struct Span {
  std::string name{};
  std::int64_t begin_ps = 0, end_ps = 0;
  std::optional<std::size_t> step{};
};

// Adds the work to a line. Neighbours that share a name and a step become one event.
void Extend(std::string_view name, const Work& work, std::vector<Span>& spans) {
  if (!spans.empty() && spans.back().name == name && spans.back().step == work.step) {
    spans.back().end_ps = std::max(spans.back().end_ps, work.end_ps);
    return;
  }
  // Work of two streams may overlap. The later event then begins where the earlier one ends,
  // because events of one line must not overlap.
  const std::int64_t begin =
      spans.empty() ? work.begin_ps : std::max(work.begin_ps, spans.back().end_ps);
  if (begin < work.end_ps || spans.empty())
    spans.push_back({std::string(name), begin, std::max(begin, work.end_ps), work.step});
}

// "a/b/op:Type": "a/b/op".
std::string_view OpName(std::string_view framework_op) {
  return framework_op.substr(0, framework_op.rfind(':'));
}

absl::StatusOr<std::vector<Work>> ReadWork(const Plane& plane, const Launches& launches) {
  std::vector<Work> all;
  const std::int64_t correlation = plane.StatId("correlation_id");
  const std::uint64_t process = xplane::ProcessOf(plane.name);
  std::array<std::int64_t, kDerivedStats> ids{};
  bool any = !launches.empty() && correlation != 0;
  for (std::size_t i = 0; i < kDerivedStats; ++i) {
    ids[i] = plane.StatId(kStats[i]);
    any = any || ids[i] != 0;
  }
  if (!any) return all;
  for (const Line& line : plane.lines) {
    ASSIGN_OR_RETURN(const std::vector<xplane::Placed> events, xplane::PlaceEvents(line));
    for (const xplane::Placed& event : events) {
      Work work{event.begin_ps, event.end_ps};
      bool tells = false;
      RETURN_IF_ERROR(ForEachStat(plane, event.event, [&](const Stat& stat) {
        if (stat.name_id == correlation) {
          const auto id = process ^ static_cast<std::uint64_t>(stat.Integer().value_or(0));
          const Launch* launch = FindLaunch(launches, id, event.begin_ps);
          if (launch != nullptr && launch->step) {
            work.step = launch->step;
            work.launch = launch;
          }
        }
        const auto* text = std::get_if<std::string_view>(&stat.value);
        for (std::size_t i = 0; i < kDerivedStats && text != nullptr; ++i) {
          if (stat.name_id != ids[i] || text->empty()) continue;
          work.stats[i] = *text;
          tells = true;
        }
      }));
      if (tells || work.step) all.push_back(work);
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Work& a, const Work& b) { return a.begin_ps < b.begin_ps; });
  return all;
}

class PlaneDeriver {
 public:
  PlaneDeriver(const Plane& plane, const std::vector<Step>& steps)
      : steps_(steps), builder_(plane.name, plane.id) {}

  void Derive(const std::vector<Work>& all) {
    std::map<std::size_t, Span> step_spans;
    std::map<std::size_t, std::vector<const Launch*>> launches;
    std::array<std::vector<Span>, kDerivedStats> told;
    std::vector<std::vector<Span>> scopes;  // Indexed by depth.
    for (const Work& work : all) {
      if (work.step) {
        const auto [span, added] =
            step_spans.try_emplace(*work.step, Span{"", work.begin_ps, work.end_ps, work.step});
        span->second.end_ps = std::max(span->second.end_ps, work.end_ps);
        launches[*work.step].push_back(work.launch);
      }
      for (std::size_t i = 0; i < kDerivedStats; ++i) {
        if (!work.stats[i].empty())
          Extend(i == kFrameworkOp ? OpName(work.stats[i]) : work.stats[i], work, told[i]);
      }
      if (!work.stats[kFrameworkOp].empty()) AddScopes(work, scopes);
    }
    std::vector<Span> steps;
    for (auto& [step, span] : step_spans) {
      span.name = StepName(step);
      steps.push_back(span);
    }
    Write(XlaLine::kSteps, kSteps, steps);
    Write(XlaLine::kModules, kLines[kModule], told[kModule]);
    Write(XlaLine::kOps, kLines[kOp], told[kOp]);
    std::vector<Span> nested;
    for (const std::vector<Span>& depth : scopes)
      nested.insert(nested.end(), depth.begin(), depth.end());
    Write(XlaLine::kScopes, kScopes, nested);
    Write(XlaLine::kFrameworkOps, kLines[kFrameworkOp], told[kFrameworkOp]);
    Write(XlaLine::kSourceCode, kLines[kSource], told[kSource]);
    WriteLaunches(launches);
  }

  std::string Encode() { return some_ ? builder_.Encode() : ""; }

 private:
  // Summarizes the launches of the work that ran on this plane, by step.
  void WriteLaunches(const std::map<std::size_t, std::vector<const Launch*>>& by_step) {
    if (by_step.empty()) return;
    BeginLine(XlaLine::kLaunches, kLaunches);
    const std::int64_t most = builder_.StatId("max_launch_time_us"),
                       average = builder_.StatId("avg_launch_time_us"),
                       count = builder_.StatId("num_launches");
    for (const auto& [step, launches] : by_step) {
      std::int64_t begin = launches.front()->begin_ps, end = launches.front()->end_ps;
      std::int64_t longest = 0, sum = 0;
      for (const Launch* launch : launches) {
        begin = std::min(begin, launch->begin_ps);
        end = std::max(end, launch->end_ps);
        longest = std::max(longest, launch->end_ps - launch->begin_ps);
        sum += launch->end_ps - launch->begin_ps;
      }
      const auto number = static_cast<std::int64_t>(launches.size());
      const auto micros = [](std::int64_t ps) { return static_cast<double>(ps) / 1e6; };
      builder_.AddEvent(builder_.EventId(StepName(step)), begin, end - begin);
      builder_.AddEventStat(most, micros(longest));
      builder_.AddEventStat(average, micros(sum) / static_cast<double>(number));
      builder_.AddEventStat(count, number);
      some_ = true;
    }
  }

  std::string StepName(std::size_t step) const {
    return StrCat(steps_[step].name, " ", steps_[step].number);
  }

  // Adds the scopes of the operation's name. Neighbours share a scope if they also share all scopes
  // around it.
  static void AddScopes(const Work& work, std::vector<std::vector<Span>>& scopes) {
    const std::string_view path = OpName(work.stats[kFrameworkOp]);
    std::size_t depth = 0;
    bool shared = true;
    for (std::size_t end = path.find('/'); end != std::string_view::npos && depth < 64;
         end = path.find('/', end + 1), ++depth) {
      if (scopes.size() <= depth) scopes.emplace_back();
      std::vector<Span>& spans = scopes[depth];
      const std::size_t slash = path.rfind('/', end - 1);
      const std::string_view name = slash == std::string_view::npos || end == 0
                                        ? path.substr(0, end)
                                        : path.substr(slash + 1, end - slash - 1);
      shared =
          shared && !spans.empty() && spans.back().name == name && spans.back().step == work.step;
      if (shared)
        spans.back().end_ps = std::max(spans.back().end_ps, work.end_ps);
      else
        spans.push_back({std::string(name), work.begin_ps, work.end_ps, work.step});
    }
  }

  void BeginLine(XlaLine line, std::string_view name) {
    builder_.BeginLine(kFirstLine + static_cast<std::int64_t>(line), name, 0);
  }

  void Write(XlaLine line, std::string_view name, const std::vector<Span>& spans) {
    if (spans.empty()) return;
    some_ = true;
    BeginLine(line, name);
    const std::int64_t group = builder_.StatId("group_id");
    for (const Span& span : spans) {
      builder_.AddEvent(builder_.EventId(span.name), span.begin_ps, span.end_ps - span.begin_ps);
      if (span.step) builder_.AddEventStat(group, static_cast<std::int64_t>(*span.step));
    }
  }

  const std::vector<Step>& steps_;
  PlaneBuilder builder_;
  bool some_ = false;
};

// Has a profiler or a tool already derived the lines of this plane?
bool HasDerivedLines(const Plane& plane) {
  return std::any_of(plane.lines.begin(), plane.lines.end(), [](const Line& line) {
    return line.name == kSteps || line.name == kLaunches || line.name == kScopes ||
           std::find(kLines.begin(), kLines.end(), line.name) != kLines.end();
  });
}

}  // namespace

absl::StatusOr<std::string> DeriveLines(const xplane::Space& space,
                                        std::vector<std::size_t>* sources) {
  std::string encoded;
  const bool any = std::any_of(space.planes.begin(), space.planes.end(), [](const Plane& plane) {
    return xplane::PlaneKindOf(plane.name) == xplane::PlaneKind::kGpu && !HasDerivedLines(plane);
  });
  if (!any) return encoded;
  ASSIGN_OR_RETURN(const std::vector<Step> steps, FindSteps(space));
  Launches launches;
  if (!steps.empty()) RETURN_IF_ERROR(ReadLaunches(space, steps, launches));
  for (std::size_t i = 0; i < space.planes.size(); ++i) {
    const Plane& plane = space.planes[i];
    if (xplane::PlaneKindOf(plane.name) != xplane::PlaneKind::kGpu || HasDerivedLines(plane))
      continue;
    ASSIGN_OR_RETURN(const std::vector<Work> work, ReadWork(plane, launches));
    PlaneDeriver deriver(plane, steps);
    deriver.Derive(work);
    const std::string derived = deriver.Encode();
    if (sources != nullptr && !derived.empty()) sources->push_back(i);
    encoded += derived;
  }
  return encoded;
}

}  // namespace strobe::analysis
