// Notices that the training job is not as usual: steps that are slower, steps that do not come, and
// memory that runs short. Pure.
//
// The usual step time is the median of the last steps. Slow steps exceed it by what the rule says,
// and take longer than 95 of 100 of the last ones, because batches may differ. Single slow steps,
// such as those that compile or save, and pauses between steps, such as for an evaluation, are no
// sign: several steps in a row must be slow.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "strobe/v1/signs.pb.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// How often to call JobSignRules::Look.
inline constexpr Nanos kLookForSigns = std::chrono::seconds(1);
inline constexpr std::size_t kMaxSignRules = 16, kMaxSigns = 8, kMaxStepTimes = 16;

struct SeenMemory {
  std::uint64_t used = 0, limit = 0;  // Bytes.
};

struct FoundSign {
  v1::Sign sign{};  // Without began_ago_ns, which grows until it is told.
  MonoTime began{};
};

class JobSignRules {
 public:
  // Replaces the rules. What is known of steps, and of rules that stay, is kept.
  void Set(std::span<const v1::SignRule> rules);
  bool empty() const { return rules_.empty(); }
  bool wants(v1::SignKind kind) const;

  // `told` is what Source::Steps returned when the clocks said `mono` and `wall`. Returns the
  // signs that appear now. A sign that lasts is returned once, and again only after it was gone.
  std::vector<FoundSign> Look(std::span<const v1::StepPace> told, std::optional<SeenMemory> memory,
                              MonoTime mono, WallTime wall);
  // The steps since the last call, for SIGN_SLOWER_THAN_OTHERS.
  std::vector<v1::StepTime> TakeStepTimes();

 private:
  // What a rule knows of a loop, a process or the memory.
  struct Watch {
    int bad = 0, good = 0;  // Steps in a row, or looks.
    MonoTime since{};       // When the first of the bad ones began.
    bool found = false;     // The sign was returned, and has not gone since.
    // Returns whether the sign appears: `needed` bad ones in a row were seen.
    bool Saw(bool is_bad, int count, int needed, MonoTime began);
  };
  struct Loop {
    std::string name{}, process{};
    std::int64_t number = 0;
    MonoTime began{};                    // When the step `number` began.
    std::deque<std::int64_t> usual{};    // Times per step, in ns, the oldest first.
    std::size_t slow_looks = 0;          // The last looks in a row at which steps were slow.
    bool slow = false;                   // The sign of slow steps was returned, and lasts.
    bool forget = true;                  // Slow looks are in `usual`; a sign removes them.
    std::vector<std::int64_t> untold{};  // Since TakeStepTimes.
    std::uint32_t untold_steps = 0;
    std::map<std::string, Watch> watches{};  // By the rule's id.
    bool reported = false;                   // It was told at the last look.
  };
  // Some steps of a loop that have ended since the last look.
  struct Steps {
    int count = 0;
    std::int64_t ns = 0;  // Per step.
    bool paused = false;  // One of them took much longer than the others.
    MonoTime began{};     // When the first one began, or earlier.
  };

  static std::optional<Steps> Advance(Loop& loop, const v1::StepPace& pace, MonoTime began);
  // Returns whether they are slow by any rule.
  bool JudgeSteps(Loop& loop, const Steps& steps, std::vector<FoundSign>& found);
  void JudgePauses(MonoTime now, std::vector<FoundSign>& found);
  void JudgeStandStills(std::span<const v1::StepPace> told, MonoTime mono, WallTime wall,
                        std::vector<FoundSign>& found);
  void JudgeMemory(const SeenMemory& memory, MonoTime now, std::vector<FoundSign>& found);
  static void Remember(Loop& loop, const Steps& steps, bool slow);

  std::vector<v1::SignRule> rules_;
  std::map<std::string, Loop> loops_;            // By process and name.
  std::map<std::string, Watch> memory_watches_;  // By the rule's id.
};

}  // namespace strobe::session
