#include "sidecar/source/agent/recorded_scopes.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "agent/wire/ring_writer.h"

namespace strobe::source {
namespace {

constexpr std::int64_t kUs = 1'000'000;

LineEvent Annotation(std::int64_t begin, std::int64_t end) { return {begin, end, nullptr, "a"}; }
HostCall Call(std::int64_t begin, std::int64_t end) {
  HostCall call;
  call.begin_ps = begin;
  call.end_ps = end;
  return call;
}

TEST(LineEvents, OfEventsWithTheSameBeginTheOuterOneComesFirst) {
  std::vector<LineEvent> events = {Annotation(5 * kUs, 6 * kUs), Annotation(0, 2 * kUs),
                                   Annotation(0, 9 * kUs)};
  SortEvents(events);
  EXPECT_EQ(events[0].end_ps, 9 * kUs);
  EXPECT_EQ(events[1].end_ps, 2 * kUs);
  EXPECT_EQ(events[2].begin_ps, 5 * kUs);
}

TEST(LineEvents, ACallIsMovedIntoItsAnnotation) {
  std::vector<LineEvent> events = {Annotation(100 * kUs, 200 * kUs)};
  // By CUPTI's clock the first begins a little before its annotation, the second ends after it.
  const std::vector<HostCall> calls = {Call(99 * kUs, 120 * kUs), Call(150 * kUs, 201 * kUs)};
  AddCalls(calls, events);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].call, nullptr);
  EXPECT_EQ(events[1].begin_ps, 100 * kUs);
  EXPECT_EQ(events[2].end_ps, 200 * kUs);
}

TEST(LineEvents, ACallThatIsClearlyOutsideStays) {
  std::vector<LineEvent> events = {Annotation(100 * kUs, 200 * kUs)};
  const std::vector<HostCall> calls = {Call(10 * kUs, 50 * kUs)};
  AddCalls(calls, events);
  EXPECT_EQ(events[0].begin_ps, 10 * kUs);
  EXPECT_EQ(events[0].end_ps, 50 * kUs);
}

// Regression: each call was compared with all annotations that begin just after it.
TEST(LineEvents, ManyAnnotationsMayBeginAtOnce) {
  constexpr std::size_t kMany = 300'000;
  std::vector<LineEvent> events(kMany, Annotation(100 * kUs, 200 * kUs));
  const std::vector<HostCall> calls(kMany, Call(99 * kUs, 120 * kUs));
  AddCalls(calls, events);
  ASSERT_EQ(events.size(), 2 * kMany);
  EXPECT_EQ(events.front().begin_ps, 100 * kUs) << "a call stays in its annotation";
  EXPECT_EQ(events.back().begin_ps, 100 * kUs);
}

// A tick is a nanosecond.
const TickScale kScale{.ticks = 0, .ps = 0, .ps_per_tick = 1000};

class RecordedScopesTest : public testing::Test {
 protected:
  RecordedScopesTest() : path_(mkdtemp(name_.data())) {
    program_ =
        wire::RingFile::Create(path_, {.max_rings = 4, .ring_words = 4 * wire::kBlockWords}, {})
            .file;
    EXPECT_TRUE(program_ && program_.Reserve(0, wire::kReserveWords));
    program_.header()->rings = 1;
  }
  ~RecordedScopesTest() override { std::filesystem::remove_all(path_); }
  void Annotate(std::uint64_t begin, std::uint64_t end, std::string_view text,
                std::uint8_t level = 1) {
    wire::RingWriter(program_.ring(0), program_.data(0), program_.ring_words())
        .Scope(level, begin, end, text);
  }
  void Drain(RecordedScopes& scopes) { scopes.Drain(buffer_, budget_); }

  std::string name_ = "/tmp/strobe-scopes-XXXXXX";
  const std::string path_;
  wire::RingFile program_;
  wire::RecordBuffer buffer_{};
  std::uint64_t budget_ = 1 << 20;
};

TEST_F(RecordedScopesTest, KeepsWhatBelongsToTheCapture) {
  Annotate(1, 2, "before");
  RecordedScopes now(program_, RecordsFrom::kNow, 1), oldest(program_, RecordsFrom::kOldest, 1);
  Annotate(3, 9, "during");
  Annotate(4, 5, "too fine", 2);
  Drain(now);
  Drain(oldest);
  EXPECT_EQ(now.kept(), 1u);
  EXPECT_EQ(now.LatestFirstNs(kScale), 3);
  EXPECT_EQ(oldest.kept(), 2u);
  EXPECT_EQ(oldest.LatestFirstNs(kScale), 1);
  EXPECT_EQ(oldest.last_ticks(), 9u);
  EXPECT_FALSE(oldest.wrapped());
  EXPECT_EQ(now.lost() + oldest.lost(), 0u);
}

TEST_F(RecordedScopesTest, CountsWhatItLacks) {
  RecordedScopes scopes(program_, RecordsFrom::kNow, 1);
  budget_ = 1;
  Annotate(1, 2, "beyond the budget");
  Drain(scopes);
  EXPECT_EQ(scopes.kept(), 0u);
  EXPECT_EQ(scopes.lost(), 1u);
  Annotate(3, 4, "not read");
  scopes.NoteEnd();
  Annotate(5, 6, "after the end");
  scopes.CountUnseen(/*lives=*/true);
  EXPECT_EQ(scopes.lost(), 2u);
  scopes.Close();
  EXPECT_EQ(scopes.last_ticks(), std::nullopt);
}

TEST_F(RecordedScopesTest, FindsTheStepsOfALoop) {
  RecordedScopes scopes(program_, RecordsFrom::kNow, 1);
  for (std::uint64_t step = 1; step <= 4; ++step)
    Annotate(step * 100, step * 100 + 90, "train#step_num=" + std::to_string(step) + "#");
  Drain(scopes);
  const auto times = scopes.TimesOfSteps("train", 2, 3, kScale);
  ASSERT_TRUE(times);
  EXPECT_EQ(times->begin_ns, 200);
  EXPECT_EQ(times->end_ns, 390);
  EXPECT_FALSE(scopes.TimesOfSteps("train", 5, 9, kScale));
  EXPECT_FALSE(scopes.TimesOfSteps("other", 2, 3, kScale));
}

}  // namespace
}  // namespace strobe::source
