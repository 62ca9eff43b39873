#include "sidecar/source/kineto/kineto_verdict.h"

#include <gmock/gmock.h>

namespace strobe::source {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Stage = KinetoDelivery::Stage;
using Held = KinetoDelivery::Held;

class KinetoVerdictTest : public testing::Test {
 protected:
  std::optional<CallVerdict> Judge(Nanos after_start) const {
    return JudgeKineto(told_, signs_, "Kineto in torch 42", told_.order.start + after_start);
  }
  // The outcome, which must be decided then, and its message.
  Outcome At(Nanos after_start) {
    const auto verdict = Judge(after_start);
    EXPECT_TRUE(verdict.has_value());
    message_ = verdict ? verdict->message : "";
    return verdict ? verdict->outcome : Outcome::kUnknown;
  }

  KinetoDelivery told_{.order = {.path = "/d/x.json", .start = MonoTime(1h), .duration = 500ms},
                       .stage = Stage::kRead,
                       .interval = 5s};
  KinetoSigns signs_;
  std::string message_;
};

TEST_F(KinetoVerdictTest, TheFinishedTraceIsTheOnlySuccess) {
  signs_.finished = true;
  EXPECT_EQ(At(600ms), Outcome::kOk);
  told_.gone = true;
  EXPECT_EQ(At(600ms), Outcome::kOk) << "a program finishes its trace before it ends";
}

TEST_F(KinetoVerdictTest, WaitsForThreeSecondsAndMoreForLargeTraces) {
  EXPECT_FALSE(Judge(3400ms));
  EXPECT_EQ(At(3500ms), Outcome::kProfilerStartFailed);
  signs_.began = true;
  signs_.unfinished_bytes = 100 << 20;
  signs_.grew = told_.order.start + 51s;
  EXPECT_FALSE(Judge(1min)) << "it writes; the capture's deadline ends that";
  EXPECT_EQ(At(61s), Outcome::kSpoolFull);
  EXPECT_THAT(message_, HasSubstr("stopped writing its trace after 104857600 bytes"));
  signs_.unfinished_bytes = 0;
  EXPECT_FALSE(Judge(3400ms));
  EXPECT_EQ(At(3500ms), Outcome::kBusy);
  EXPECT_THAT(message_, HasSubstr("the program's own profiler session ended the recording"));
}

TEST_F(KinetoVerdictTest, NothingCameOfIt) {
  EXPECT_EQ(At(4s), Outcome::kProfilerStartFailed);
  EXPECT_THAT(message_, HasSubstr("read the request but did not begin"));
  EXPECT_THAT(message_, HasSubstr("KINETO_ONDEMAND_TRACE_DIR"));
  told_.read = told_.order.start - 1s;
  EXPECT_EQ(At(4s), Outcome::kProfilerStartFailed);
  EXPECT_THAT(message_, HasSubstr("read the request too late"));
  told_.idle = false;
  EXPECT_EQ(At(4s), Outcome::kBusy);
  EXPECT_THAT(message_, HasSubstr("the program was already running its own profiler session"));
}

TEST_F(KinetoVerdictTest, WhyItWasNotTold) {
  told_.stage = Stage::kWaiting;
  EXPECT_FALSE(Judge(-1s));
  told_.stage = Stage::kMissed;
  EXPECT_EQ(At(-1s), Outcome::kProfilerStartFailed);
  EXPECT_THAT(message_,
              HasSubstr("Kineto in torch 42 polls every 5s, and must be asked 1.25s before"));
  const std::pair<Held, Outcome> expected[] = {{Held::kInUse, Outcome::kBusy},
                                               {Held::kOccupied, Outcome::kBusy},
                                               {Held::kUnread, Outcome::kProfilerStartFailed},
                                               {Held::kSeenLate, Outcome::kProfilerStartFailed}};
  for (const auto& [held, outcome] : expected) {
    told_.held = held;
    EXPECT_EQ(At(-1s), outcome);
  }
}

TEST_F(KinetoVerdictTest, WhoEndsIsLost) {
  told_.gone = true;
  EXPECT_EQ(At(-1s), Outcome::kWorkerLost);
  EXPECT_THAT(message_, HasSubstr("ended before it was recorded"));
  signs_.began = true;
  EXPECT_EQ(At(100ms), Outcome::kWorkerLost);
  EXPECT_THAT(message_, HasSubstr("was lost while it recorded"));
}

TEST_F(KinetoVerdictTest, ACancellationSaysWhatGoesOn) {
  const auto cancelled = [&](Nanos after_start) {
    return KinetoCancelled(told_, "Kineto in torch 42", told_.order.start + after_start).message;
  };
  EXPECT_THAT(cancelled(-2s), HasSubstr("records for another 2.5s, because Kineto's protocol"));
  EXPECT_THAT(cancelled(1s), HasSubstr(": its trace was removed"));
  told_.stage = Stage::kWaiting;
  EXPECT_THAT(cancelled(-2s), HasSubstr("was not asked to record"));
}

}  // namespace
}  // namespace strobe::source
