#include "collector/trace/kineto/flow_ends.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/fakes/json_trace.h"

namespace strobe::kineto {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Json = nlohmann::json;

// Two launches within an operator, and their kernels.
std::vector<Json> Slices() {
  return {SpanEvent("cpu_op", "aten::mm", 900, 900, 5e9, 40, {{"Ev Idx", 1}}),
          SpanEvent("cuda_runtime", "launch 11", 900, 900, 5e9 + 5, 10, {{"correlation", 11}}),
          SpanEvent("cuda_runtime", "launch 12", 900, 900, 5e9 + 20, 10, {{"correlation", 12}}),
          SpanEvent("kernel", "kernel 11", 0, 7, 5e9 + 100, 300,
                    {{"device", 0}, {"stream", 7}, {"correlation", 11}}),
          SpanEvent("kernel", "kernel 12", 0, 7, 5e9 + 500, 300,
                    {{"device", 0}, {"stream", 7}, {"correlation", 12}})};
}
std::vector<Json> Ends(std::string_view category = "ac2g") {
  return {FlowEvent("s", 11, 900, 900, 5e9 + 5, category),
          FlowEvent("f", 11, 0, 7, 5e9 + 100, category),
          FlowEvent("s", 12, 900, 900, 5e9 + 20, category),
          FlowEvent("f", 12, 0, 7, 5e9 + 500, category)};
}

void ExpectFiveSpansAndTwoArrows(std::vector<Json> events) {
  const JsonTrace trace = JsonTrace::Of(events);
  EXPECT_EQ(trace.report.spans, 5u);
  EXPECT_THAT(trace.Arrows(), ElementsAre("launch 11 > kernel 11", "launch 12 > kernel 12"));
  EXPECT_THAT(trace.ExportedArrows(),
              ElementsAre("launch 11 > kernel 11", "launch 12 > kernel 12"));
  EXPECT_THAT(trace.space.warnings, IsEmpty());
  const digest::Digest digest = trace.MakeDigest();
  EXPECT_EQ(digest.events, 5u);
  ASSERT_THAT(digest.devices, SizeIs(1));
  EXPECT_EQ(digest.time.compute_ns, 600'000);
  EXPECT_TRUE(digest.knows.launches);
}

std::vector<Json> Joined(std::vector<Json> a, const std::vector<Json>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(FlowEnds, EndsBelongToTheEventOfTheirThreadAndTimeWhereverTheyStand) {
  ExpectFiveSpansAndTwoArrows(Joined(Slices(), Ends()));
  ExpectFiveSpansAndTwoArrows(Joined(Ends(), Slices()));
  std::vector<Json> events = Joined(Slices(), Ends());
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) {
    std::shuffle(events.begin(), events.end(), random);
    ExpectFiveSpansAndTwoArrows(events);
  }
}

// Only the arrows say what belongs together.
TEST(FlowEnds, ArrowsOfOtherKindsNeedNoCorrelationIds) {
  std::vector<Json> events = Slices();
  for (Json& event : events) event["args"].erase("correlation");
  // The arrows of launches tell when work was launched, too.
  ExpectFiveSpansAndTwoArrows(Joined(events, Ends()));
  ExpectFiveSpansAndTwoArrows(Joined(Ends(), events));
  for (const std::vector<Json>& all :
       {Joined(events, Ends("async_npu")), Joined(Ends("x"), events)}) {
    const JsonTrace trace = JsonTrace::Of(all);
    EXPECT_EQ(trace.report.spans, 5u);
    EXPECT_THAT(trace.Arrows(), ElementsAre("launch 11 > kernel 11", "launch 12 > kernel 12"));
  }
}

// PyTorch before 1.13 wrote them so.
TEST(FlowEnds, ArrowsThatSayTheSameAsCorrelationIdsAreNotDrawnTwice) {
  std::vector<Json> ends = Ends("async");
  for (Json& end : ends) end["name"] = "launch";
  ExpectFiveSpansAndTwoArrows(Joined(Slices(), ends));
  EXPECT_EQ(JsonTrace::Of(Joined(ends, Slices())).report.joined_flows, 4u);
}

TEST(FlowEnds, AnEndBelongsToTheInnermostEventAroundIt) {
  const JsonTrace trace =
      JsonTrace::Of({FlowEvent("s", 1, 1, 1, 15, "c"), FlowEvent("f", 1, 1, 2, 5, "c"),
                     SpanEvent("", "outer", 1, 1, 1, 99), SpanEvent("", "inner", 1, 1, 10, 9),
                     SpanEvent("", "later", 1, 1, 16, 2), SpanEvent("", "other", 1, 2, 0, 9)});
  EXPECT_THAT(trace.Arrows(), ElementsAre("inner > other"));
  EXPECT_EQ(trace.report.spans, 4u);
}

// As Chrome's format says: without "bp":"e", an arrow ends at the next event.
TEST(FlowEnds, AnEndThatBindsToNoEnclosingEventBelongsToTheNextOne) {
  Json end = FlowEvent("f", 1, 1, 2, 5, "c");
  for (const bool enclosing : {true, false}) {
    if (!enclosing) end.erase("bp");
    const JsonTrace trace =
        JsonTrace::Of({end, FlowEvent("s", 1, 1, 1, 2, "c"), SpanEvent("", "from", 1, 1, 1, 3),
                       SpanEvent("", "much later", 1, 2, 30, 1),
                       SpanEvent("", "around", 1, 2, 0, 90), SpanEvent("", "next", 1, 2, 7, 1)});
    EXPECT_THAT(trace.Arrows(), ElementsAre(enclosing ? "from > around" : "from > next"));
  }
}

TEST(FlowEnds, AThreadAndAStreamMayHaveTheSameNumbers) {
  std::vector<Json> events = {
      SpanEvent("cuda_runtime", "launch", 1, 1, 10, 5, {{"correlation", 5}}),
      SpanEvent("kernel", "kernel", 1, 1, 10, 30,
                {{"device", 1}, {"stream", 1}, {"correlation", 5}}),
      FlowEvent("s", 5, 1, 1, 10), FlowEvent("f", 5, 1, 1, 10)};
  std::sort(events.begin(), events.end());
  do {
    const JsonTrace trace = JsonTrace::Of(events);
    EXPECT_THAT(trace.Arrows(), ElementsAre("launch > kernel"));
    EXPECT_EQ(trace.report.spans, 2u);
  } while (std::next_permutation(events.begin(), events.end()));
}

TEST(FlowEnds, EndsWhereNoEventIsAreToldAndBecomeNoEvents) {
  std::vector<Json> events = Slices();
  events.push_back(FlowEvent("s", 77, 900, 901, 5e9 + 5));  // A row without events.
  events.push_back(FlowEvent("f", 77, 0, 7, 5e9 + 450));    // Between two kernels.
  events.push_back(FlowEvent("f", 78, 3, 7, 5e9 + 450));    // A device that is not there.
  const JsonTrace trace = JsonTrace::Of(events);
  EXPECT_EQ(trace.report.spans, 5u);
  EXPECT_THAT(trace.space.warnings, Contains(HasSubstr("3 ends of arrows could not be used")));
  EXPECT_EQ(trace.MakeDigest().devices.size(), 1u);
}

TEST(FlowEnds, EventsWithBeginAndEndHaveArrowsToo) {
  const JsonTrace trace =
      JsonTrace::Of({{{"ph", "B"}, {"name", "from"}, {"pid", 1}, {"tid", 1}, {"ts", 1}},
                     FlowEvent("s", 1, 1, 1, 2, "c"),
                     {{"ph", "E"}, {"pid", 1}, {"tid", 1}, {"ts", 9}},
                     SpanEvent("", "to", 1, 2, 20, 5),
                     FlowEvent("f", 1, 1, 2, 21, "c")});
  EXPECT_THAT(trace.Arrows(), ElementsAre("from > to"));
}

TEST(FlowEnds, AnEventMayHaveManyArrows) {
  std::vector<Json> events = {SpanEvent("", "from", 1, 1, 1, 9)};
  for (int i = 0; i < 20; ++i) {
    events.push_back(SpanEvent("", StrCat("to ", i), 1, 2, 20 + 10 * i, 5));
    events.push_back(FlowEvent("s", i, 1, 1, 5, "c"));
    events.push_back(FlowEvent("f", i, 1, 2, 22 + 10 * i, "c"));
  }
  const JsonTrace trace = JsonTrace::Of(events);
  EXPECT_THAT(trace.Arrows(), SizeIs(20));
  EXPECT_EQ(trace.ExportedArrows(), trace.Arrows());
}

// Random threads with nested slices, and arrows between random moments, compared with a search
// through all slices for each end. The order of events in the file changes nothing.
class RandomThreads {
 public:
  explicit RandomThreads(unsigned seed) : random_(seed) {
    for (int thread = 0; thread < 4; ++thread) Add(thread, 1 + Below(5), 2000, 3);
    for (int id = 0; id < 60; ++id) AddArrow(id);
    std::sort(arrows_.begin(), arrows_.end());
  }
  std::vector<Json> Shuffled() {
    std::shuffle(events_.begin(), events_.end(), random_);
    return events_;
  }
  const std::vector<std::string>& arrows() const { return arrows_; }
  std::size_t slices() const { return slices_.size(); }

 private:
  struct Slice {
    int thread, begin, end;
    std::string name;
  };
  int Below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  // No two slices of a thread begin together: which is the inner one would be the order's to tell.
  void Add(int thread, int begin, int end, int depth) {
    while (begin + 20 < end) {
      const int last = std::min(end - 1, begin + 10 + Below(300));
      slices_.push_back({thread, begin, last, StrCat("slice ", slices_.size())});
      events_.push_back(SpanEvent("c", slices_.back().name, 1, thread, begin, last - begin));
      if (depth > 0 && Below(3) > 0) Add(thread, begin + 1 + Below(5), last, depth - 1);
      begin = last + 1 + Below(20);
    }
  }

  const Slice* Find(int thread, int at, bool next) const {
    const Slice *around = nullptr, *behind = nullptr;
    for (const Slice& slice : slices_) {
      if (slice.thread != thread) continue;
      if (slice.begin <= at && at <= slice.end &&
          (around == nullptr || around->begin < slice.begin))
        around = &slice;
      if (slice.begin >= at && (behind == nullptr || behind->begin > slice.begin)) behind = &slice;
    }
    return next && behind != nullptr ? behind : around;
  }

  void AddArrow(int id) {
    const int from_thread = Below(4), to_thread = Below(4), from_at = Below(2000),
              to_at = Below(2000);
    const bool next = Below(2) == 0;
    events_.push_back(FlowEvent("s", id, 1, from_thread, from_at, "arrows"));
    events_.push_back(FlowEvent("f", id, 1, to_thread, to_at, "arrows"));
    if (next) events_.back().erase("bp");
    const Slice* from = Find(from_thread, from_at, false);
    const Slice* to = Find(to_thread, to_at, next);
    if (from != nullptr && to != nullptr && from != to)
      arrows_.push_back(StrCat(from->name, " > ", to->name));
  }

  std::mt19937 random_;
  std::vector<Slice> slices_;
  std::vector<Json> events_;
  std::vector<std::string> arrows_;
};

TEST(FlowEnds, TheOrderOfEventsInTheFileChangesNoArrow) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    RandomThreads made(seed);
    for (int i = 0; i < 3; ++i) {
      const JsonTrace trace = JsonTrace::Of(made.Shuffled());
      ASSERT_EQ(trace.Arrows(), made.arrows()) << seed;
      ASSERT_EQ(trace.report.spans, made.slices()) << seed;
    }
  }
}

// Events around all ends, and ends at one moment, take no more than their logarithm each.
TEST(FlowEnds, HostileFilesTakeNoTimeOfASquare) {
  constexpr int kMany = 30'000;
  std::string file = "{\"traceEvents\":[";
  for (int i = 0; i < kMany; ++i) {
    file +=
        StrCat(R"({"ph":"X","name":"a","pid":1,"tid":1,"ts":)", i, R"(,"dur":)", 2 * (kMany - i),
               R"(},{"ph":"s","cat":"c","id":)", i, R"(,"pid":1,"tid":1,"ts":)", kMany,
               R"(},{"ph":"f","cat":"c","id":)", i, R"(,"pid":1,"tid":1,"ts":)", i, "},");
  }
  file.back() = ']';
  const JsonTrace trace(file + "}");
  EXPECT_EQ(trace.report.spans, std::uint64_t{kMany});
  EXPECT_EQ(trace.report.loose_flows, 0u);
}

}  // namespace
}  // namespace strobe::kineto
