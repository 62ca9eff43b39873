#include "sidecar/spool/kept_traces.h"

#include <gmock/gmock.h>

#include <atomic>
#include <vector>

namespace strobe::spool {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

// Each attempt is noted; the traces whose ids are in `stubborn` wait for another hour after it.
class KeptTracesTest : public testing::Test {
 protected:
  KeptTrace Due(const std::string& id, Nanos in) {
    return {.id = id, .report = {}, .next = clock_.MonoNow() + in};
  }
  std::vector<std::string> attempts() {
    MutexLock lock(&mutex_);
    return attempts_;
  }

  SystemClock clock_;
  std::atomic<bool> stubborn_{false};
  Mutex mutex_;
  std::vector<std::string> attempts_ ABSL_GUARDED_BY(mutex_);
  KeptTraces kept_{clock_, [this](KeptTrace trace) -> std::optional<KeptTrace> {
                     MutexLock lock(&mutex_);
                     attempts_.push_back(trace.id);
                     if (!stubborn_) return std::nullopt;
                     trace.next = clock_.MonoNow() + 1h;
                     return trace;
                   }};
};

TEST_F(KeptTracesTest, AreAttemptedWhenTheyAreDue) {
  kept_.Start();
  kept_.Add(Due("later", 1h));
  kept_.Add(Due("second", 20ms));
  kept_.Add(Due("first", 0ms));
  MutexLock lock(&mutex_);
  mutex_.AwaitFor(10s,
                  [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return attempts_.size() >= 2; });
  EXPECT_THAT(attempts_, ElementsAre("first", "second"));
}

TEST_F(KeptTracesTest, OneMoreAttemptIsMadeForEachThatWaits) {
  kept_.Start();
  kept_.AttemptAll(10s);
  stubborn_ = true;
  kept_.Add(Due("a", 1h));
  kept_.Add(Due("b", 1h));
  kept_.AttemptAll(10s);
  EXPECT_THAT(attempts(), UnorderedElementsAre("a", "b"));
  stubborn_ = false;
  kept_.AttemptAll(10s);
  kept_.AttemptAll(10s);
  EXPECT_EQ(attempts().size(), 4u) << "those that no longer wait are not attempted";
}

TEST_F(KeptTracesTest, NoAttemptIsBegunAfterTheEnd) {
  kept_.Start();
  kept_.Stop();
  kept_.Add(Due("a", 0ms));
  kept_.AttemptAll(50ms);
  EXPECT_THAT(attempts(), ElementsAre());
}

}  // namespace
}  // namespace strobe::spool
