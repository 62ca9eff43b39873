#include "sidecar/source/lost_worker.h"

#include <gtest/gtest.h>

#include "common/protocol/outcome.h"

namespace strobe::source {
namespace {

using std::chrono::seconds;

class Programs final : public session::Source {
 public:
  std::vector<v1::Source> Probe(Nanos) override {
    v1::Source source;
    source.set_ready(there);
    return {source};
  }
  Nanos lead() const override { return Nanos{0}; }
  std::vector<session::Recording> Record(const v1::CapturePlan&, const Cancellation&,
                                         const Cancellation&,
                                         const std::function<void()>&) override {
    return {};
  }
  bool there = false;
};

std::vector<session::Recording> With(std::vector<Outcome> outcomes) {
  session::Recording recording;
  for (const Outcome outcome : outcomes)
    recording.processes.emplace_back().set_outcome(static_cast<v1::Outcome>(outcome));
  return session::OneRecording(std::move(recording));
}

TEST(LostWorker, IsLostTwoSecondsAfterItsLastProcess) {
  Programs programs;
  LostWorker worker(programs, 2);
  worker.OnRecorded(With({Outcome::kWorkerLost, Outcome::kWorkerLost}));
  EXPECT_FALSE(worker.IsLost(seconds(5))) << "the other source records";
  worker.OnRecorded(With({Outcome::kNoSource}));
  EXPECT_FALSE(worker.IsLost(seconds(1)));
  programs.there = true;
  EXPECT_FALSE(worker.IsLost(seconds(5))) << "a program with the agent is there";
  programs.there = false;
  EXPECT_FALSE(worker.IsLost(seconds(1)));
  EXPECT_TRUE(worker.IsLost(seconds(1)));
}

TEST(LostWorker, WhoWasNeverThereMayCome) {
  Programs programs;
  LostWorker worker(programs, 1);
  worker.OnRecorded(With({Outcome::kNoSource}));
  EXPECT_FALSE(worker.IsLost(seconds(5)));
}

TEST(LostWorker, AProcessThatCouldNotBeRecordedIsNotLost) {
  Programs programs;
  LostWorker worker(programs, 1);
  worker.OnRecorded(With({Outcome::kWorkerLost, Outcome::kBusy}));
  EXPECT_FALSE(worker.IsLost(seconds(5)));
}

}  // namespace
}  // namespace strobe::source
