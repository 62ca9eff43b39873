#include "viewer/answers/find.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <tuple>
#include <vector>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/wire.h"
#include "common/base/strings.h"
#include "tests/unit/collector/colliding_names.h"
#include "tests/unit/viewer/made_run.h"
#include "viewer/answers/event_texts.h"

namespace strobe::viewer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::int64_t kUs = 1'000'000;

// A plane as TPUs write it: two kinds of event are shown as "fusion.1", with full names and
// arguments that belong to all events of the kind.
std::string TpuPlane() {
  const auto stat = [](std::int64_t name, std::string_view value) {
    std::string bytes;
    wire::AppendVarintField(1, static_cast<std::uint64_t>(name), bytes);
    wire::AppendBytesField(5, value, bytes);
    return bytes;
  };
  const auto kind = [&](std::int64_t id, std::string_view name, std::string_view tf_op) {
    std::string metadata, entry;
    wire::AppendVarintField(1, static_cast<std::uint64_t>(id), metadata);
    wire::AppendBytesField(2, name, metadata);
    wire::AppendBytesField(4, "fusion.1", metadata);
    wire::AppendBytesField(5, stat(1, tf_op), metadata);
    wire::AppendVarintField(1, static_cast<std::uint64_t>(id), entry);
    wire::AppendBytesField(2, metadata, entry);
    return entry;
  };
  std::string plane, line, name, entry;
  wire::AppendBytesField(2, "/device:TPU:0", plane);
  wire::AppendVarintField(1, 1, name);
  wire::AppendBytesField(2, "tf_op", name);
  wire::AppendVarintField(1, 1, entry);
  wire::AppendBytesField(2, name, entry);
  wire::AppendBytesField(5, entry, plane);
  wire::AppendBytesField(4, kind(1, "%fusion.1 = f32[8] fusion(%p), kind=kLoop", "model/a:Add"),
                         plane);
  wire::AppendBytesField(4, kind(2, "%fusion.1 = s32[4] fusion(%q), kind=kInput", "model/b:Mul"),
                         plane);
  wire::AppendVarintField(1, 1, line);
  wire::AppendBytesField(2, "XLA Ops", line);
  for (std::uint64_t i = 0; i < 10; ++i) {
    std::string event;
    wire::AppendVarintField(1, i % 5 == 0 ? 2 : 1, event);
    wire::AppendVarintField(2, i * 10 * kUs, event);
    wire::AppendVarintField(3, kUs, event);
    wire::AppendBytesField(4, event, line);
  }
  wire::AppendBytesField(3, line, plane);
  std::string space;
  wire::AppendBytesField(1, plane, space);
  return space;
}

// A thread with `events` events of distinct arguments.
std::string HostPlane(int events) {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  for (int i = 0; i < events; ++i) {
    host.AddEvent(host.EventId("step"), i * kUs, kUs / 2);
    host.AddEventStat(host.StatId("request_id"), std::int64_t{1'000'000} + i);
    host.AddEventStat(host.StatId("shape"), xplane::Ref{i % 100 == 0 ? "f32[7]" : "f32[9]"});
    host.AddEventStat(host.StatId("note"), std::string_view(i == 5 ? "the odd one" : "usual"));
    host.AddEventStat(host.StatId("share"), 0.5 + i);
    host.AddEventStat(host.StatId("_hidden"), std::string_view("secret"));
  }
  return host.Encode();
}

Found Find(const LoadedRun& run, FindRequest request) {
  const absl::StatusOr<Found> found = FindEvents(run, request);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.value_or(Found{});
}

TEST(Find, IdsThatAreChosenToCollideAreSearched) {
  const std::string bytes = CollidingNames();
  const xplane::Space space = *xplane::Space::Read(bytes);
  const re2::RE2 pattern("170000");
  const EventTexts texts = *EventTexts::Read(space.planes[0], pattern);
  std::uint64_t cost = 0, matches = 0;
  ASSERT_TRUE(xplane::ForEachEvent(space.planes[0].lines[0], [&](const xplane::Event& event) {
                matches += *texts.MatchesArguments(event.bytes, cost) ? 1 : 0;
              }).ok());
  EXPECT_EQ(matches, 1u);
}

// Regression: conversion gives all steps of PyTorch one name, and "ProfilerStep#6" found nothing.
TEST(Find, StepsOfPyTorchAreFoundByTheNamesThatTheFileHas) {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "thread 1", 0);
  for (std::int64_t i = 0; i < 16; ++i) {
    host.AddEvent(host.EventId(xplane::kTorchStep), i * kUs, kUs / 2);
    host.AddEventStat(host.StatId("step_num"), i);
    host.AddEventStat(host.StatId(xplane::kOwnName), xplane::Ref{StrCat("ProfilerStep#", i)});
    host.AddEvent(host.EventId("aten::mm"), i * kUs, kUs / 4);
  }
  const LoadedRun run = MadeRun({host.Encode()});
  const auto find = [&](const std::string& text) { return Find(run, {.text = text}); };
  EXPECT_EQ(find("ProfilerStep").total, 16u);
  EXPECT_EQ(find("ProfilerStep#1").total, 7u) << "also 10 to 15";
  const Found found = find("ProfilerStep#6");
  EXPECT_THAT(found.names, ElementsAre("ProfilerStep#6"));
  ASSERT_THAT(found.hits, SizeIs(1));
  EXPECT_EQ(found.hits[0].begin_ps, 6 * kUs);
  EXPECT_EQ(found.hits[0].name, "ProfilerStep#6");
  EXPECT_EQ(find("aten").total, 16u) << "another event is called what its kind is called";
}

TEST(Find, FullNamesAndSharedArgumentsAreTexts) {
  const LoadedRun run = MadeRun({TpuPlane()});
  EXPECT_EQ(Find(run, {.text = "kInput"}).total, 0u) << "no name is like that";
  Found found = Find(run, {.text = "kInput", .in = FindIn::kTexts});
  EXPECT_EQ(found.total, 2u) << "of ten events that look alike";
  ASSERT_THAT(found.hits, SizeIs(2));
  EXPECT_EQ(found.hits[1].ordinal, 5u);
  EXPECT_EQ(found.hits[0].reason.name, "Full name");
  EXPECT_THAT(found.hits[0].reason.value, testing::HasSubstr("kind=kInput"));
  found = Find(run, {.text = "MODEL/A", .in = FindIn::kTexts});
  EXPECT_EQ(found.total, 8u);
  EXPECT_EQ(found.hits.at(0).reason.name, "tf_op");
  EXPECT_EQ(found.hits.at(0).reason.value, "model/a:Add");
  found = Find(run, {.text = "fusion", .in = FindIn::kAll});
  EXPECT_EQ(found.total, 10u) << "the name and the full name are one hit";
  EXPECT_EQ(found.hits.at(0).reason.name, "") << "the name itself";
}

TEST(Find, ArgumentsOfSingleEventsAreFoundByNameAndValue) {
  const LoadedRun run = MadeRun({HostPlane(1000)});
  EXPECT_EQ(Find(run, {.text = "the odd one", .in = FindIn::kTexts}).total, 0u);
  const Found odd = Find(run, {.text = "the ODD one", .in = FindIn::kAll});
  EXPECT_EQ(odd.total, 1u);
  ASSERT_THAT(odd.hits, SizeIs(1));
  EXPECT_EQ(odd.hits[0].ordinal, 5u);
  EXPECT_EQ(odd.hits[0].reason.name, "note");
  EXPECT_EQ(odd.unread, 0u);
  EXPECT_EQ(Find(run, {.text = "f32[7]", .in = FindIn::kAll}).total, 10u) << "a shared value";
  EXPECT_EQ(Find(run, {.text = "1000123", .in = FindIn::kAll}).total, 1u) << "a number";
  EXPECT_EQ(Find(run, {.text = "7.5", .in = FindIn::kAll}).hits.at(0).reason.name, "share");
  EXPECT_EQ(Find(run, {.text = "request_id", .in = FindIn::kAll}).total, 1000u);
  EXPECT_EQ(Find(run, {.text = "^10001[0-4]5$", .regex = true, .in = FindIn::kAll}).total, 5u);
  EXPECT_EQ(Find(run, {.text = "secret", .in = FindIn::kAll}).total, 0u) << "XLA's own mark";
  EXPECT_EQ(Find(run, {.text = "_hidden", .in = FindIn::kAll}).total, 0u);
}

TEST(Find, HitsComeInTheOrderOfTheSearch) {
  const LoadedRun run = MadeRun({HostPlane(1000), HostPlane(1000)});
  const auto begins = [](const Found& found) {
    std::vector<std::int64_t> times;
    for (const Hit& hit : found.hits) times.push_back(hit.begin_ps / kUs);
    return times;
  };
  for (const bool count : {true, false}) {
    FindRequest request{
        .text = "f32[7]", .in = FindIn::kAll, .from_ps = 150 * kUs, .limit = 3, .count = count};
    EXPECT_THAT(begins(Find(run, request)), ElementsAre(200, 200, 300));
    request.backwards = true;
    EXPECT_THAT(begins(Find(run, request)), ElementsAre(100, 100, 0));
    request.from_ps = 0;
    EXPECT_THAT(begins(Find(run, request)), IsEmpty());
  }
}

// A thread on which hundreds of events begin together, more than a request's limit.
std::string TiesPlane() {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  for (int i = 0; i < 3; ++i) host.AddEvent(host.EventId("overlap"), i * kUs, 5 * kUs);
  for (int i = 0; i < 600; ++i) host.AddEvent(host.EventId("tie"), kUs, 0);
  host.AddEvent(host.EventId("last"), 20 * kUs, kUs);
  return host.Encode();
}

TEST(Find, AListGoesOnWhereItEndedHoweverManyEventsBeginTogether) {
  const LoadedRun run = MadeRun({TiesPlane(), TiesPlane()});
  FindRequest request{.limit = 100};
  std::set<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> seen;
  for (std::size_t hits = request.limit; hits == request.limit && seen.size() <= run.events;) {
    const Found found = Find(run, request);
    hits = found.hits.size();
    for (const Hit& hit : found.hits) {
      EXPECT_GE(hit.begin_ps, request.from_ps);
      EXPECT_TRUE(seen.emplace(hit.row, hit.track, hit.ordinal).second) << "told twice";
    }
    if (found.hits.empty()) break;
    const Hit& last = found.hits.back();
    request.from_ps = last.begin_ps;
    request.after = EventRef{.row = last.row, .track = last.track, .ordinal = last.ordinal};
  }
  EXPECT_EQ(seen.size(), run.events);
}

TEST(Find, GoingBackFromHitToHitMeetsTheSameEventsAsGoingForth) {
  using Place = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;
  const LoadedRun run = MadeRun({TiesPlane(), TiesPlane()});
  for (const bool count : {true, false}) {
    const auto walk = [&](bool backwards) {
      FindRequest request{.text = "t", .in = FindIn::kAll, .limit = 100, .count = count};
      request.backwards = backwards;
      request.from_ps = backwards ? run.end_ps + 1 : run.begin_ps;
      std::vector<Place> places;
      while (places.size() <= run.events) {
        const Found found = Find(run, request);
        if (found.hits.empty()) break;
        for (const Hit& hit : found.hits) places.emplace_back(hit.row, hit.track, hit.ordinal);
        const Hit& last = found.hits.back();
        request.from_ps = last.begin_ps;
        request.after = EventRef{.row = last.row, .track = last.track, .ordinal = last.ordinal};
      }
      return places;
    };
    const std::vector<Place> forth = walk(false);
    std::vector<Place> back = walk(true);
    std::reverse(back.begin(), back.end());
    EXPECT_EQ(forth.size(), 2u * 601u) << "the ties and the last ones";
    EXPECT_EQ(back, forth);
  }
}

// A thread with events of 1 to 7 µs, which are no longer the later they begin.
std::string LengthsPlane(int events) {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  for (int i = 0; i < events; ++i)
    host.AddEvent(host.EventId(i % 2 == 0 ? "even" : "odd"), i * 10 * kUs, (i * 5 % 7 + 1) * kUs);
  return host.Encode();
}

TEST(Find, TheLongestComeFirstAndTheListGoesOn) {
  const LoadedRun run = MadeRun({LengthsPlane(500), LengthsPlane(500)});
  FindRequest request{.text = "even", .from_ps = run.end_ps, .longest = true, .limit = 60};
  std::vector<Hit> all;
  while (all.size() <= run.events) {
    const Found found = Find(run, request);
    if (found.hits.empty()) break;
    EXPECT_EQ(found.total, 500u);
    all.insert(all.end(), found.hits.begin(), found.hits.end());
    const Hit& last = found.hits.back();
    request.after = EventRef{last.row, last.track, last.ordinal, last.begin_ps, last.duration_ps};
  }
  ASSERT_THAT(all, SizeIs(500)) << "each once";
  const auto place = [](const Hit& hit) {
    return std::tuple(-hit.duration_ps, hit.begin_ps, hit.row, hit.track, hit.ordinal);
  };
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [&](const Hit& a, const Hit& b) { return place(a) < place(b); }));
  EXPECT_EQ(all.front().duration_ps, 7 * kUs);
  EXPECT_EQ(all.back().duration_ps, kUs);
}

TEST(Find, MarksThePartsOfTheRunThatHaveMatches) {
  const LoadedRun run = MadeRun({HostPlane(1000)});
  for (const FindIn in : {FindIn::kNames, FindIn::kAll}) {
    const Found none = Find(run, {.text = "no such event", .in = in, .slots = 100});
    EXPECT_THAT(none.marks, IsEmpty());
    EXPECT_THAT(Find(run, {.text = "step", .in = in, .slots = 100}).marks, SizeIs(100));
    EXPECT_THAT(Find(run, {.text = "step", .in = in}).marks, IsEmpty()) << "nobody has asked";
  }
  // It begins at 5 µs of a run of 999.5.
  const Found odd = Find(run, {.text = "the odd one", .in = FindIn::kAll, .slots = 400});
  EXPECT_THAT(odd.marks, ElementsAre(2));
  EXPECT_EQ(odd.slot_ps, (run.end_ps - run.begin_ps) / 400 + 1);
  for (const bool backwards : {false, true}) {
    const FindRequest from{
        .text = "step", .from_ps = 123 * kUs, .backwards = backwards, .slots = 1};
    EXPECT_EQ(Find(run, from).before, 123u);
  }
}

TEST(Find, TellsHowLongTheMatchesAre) {
  const LoadedRun run = MadeRun({LengthsPlane(500), LengthsPlane(500)});
  for (const FindIn in : {FindIn::kNames, FindIn::kAll}) {
    const Lengths even = Find(run, {.text = "even", .in = in, .limit = 1, .slots = 10}).lengths;
    EXPECT_EQ(even.count, 500u);
    EXPECT_EQ(even.least_ps, kUs);
    EXPECT_EQ(even.most_ps, 7 * kUs);
    std::int64_t sum = 0;
    for (int i = 0; i < 500; i += 2) sum += 2 * (i * 5 % 7 + 1) * kUs;
    EXPECT_EQ(even.sum_ps, sum);
  }
  EXPECT_EQ(Find(run, {.text = "even"}).lengths.count, 0u) << "nobody has asked";
  EXPECT_EQ(Find(run, {.text = "no such event", .slots = 10}).lengths.count, 0u);
}

TEST(Find, TellsHowManyEventsWereNotRead) {
  const LoadedRun run = MadeRun({HostPlane(10'000)});
  FindRequest request{.text = "usual", .in = FindIn::kAll};
  EXPECT_EQ(Find(run, request).total, 9'999u);
  request.max_cost = 1000;
  const Found found = Find(run, request);
  EXPECT_GT(found.total, 0u);
  EXPECT_GT(found.unread, 9'000u);
  EXPECT_LE(found.total + found.unread, 10'000u);
  request.text = "step";
  EXPECT_EQ(Find(run, request).total, 10'000u) << "names are always counted in full";
}

TEST(Find, EndsOnceNobodyWaits) {
  constexpr int kEvents = 100'000, kAnswers = 4;
  const LoadedRun run = MadeRun({HostPlane(kEvents)});
  std::atomic<int> asked{0};
  const auto ask = [&](int answers) {
    asked = 0;
    return FindEvents(run, {.text = "nothing is called so", .in = FindIn::kAll, .is_gone = [&] {
                              return ++asked > answers;
                            }});
  };
  EXPECT_TRUE(absl::IsCancelled(ask(kAnswers).status()));
  EXPECT_LE(asked, kAnswers + 2) << "of each thread at most once more";
  ASSERT_TRUE(ask(kEvents).ok());
  EXPECT_GT(asked, 2 * kAnswers) << "there was more to read";
}

TEST(Find, RefusesWhatIsNoPattern) {
  const LoadedRun run = MadeRun({HostPlane(1)});
  EXPECT_TRUE(absl::IsInvalidArgument(
      FindEvents(run, {.text = "(", .regex = true, .in = FindIn::kAll}).status()));
  EXPECT_EQ(Find(run, {.text = "(", .in = FindIn::kAll}).total, 0u) << "plain text";
}

TEST(Find, EventsOfOtherWorkersWithOtherIdsAreNotConfused) {
  // These ids name different things in the planes of the two workers.
  xplane::PlaneBuilder other(xplane::kHostPlane);
  other.BeginLine(1, "main", 0);
  other.AddEvent(other.EventId("first"), 0, kUs);
  other.AddEventStat(other.StatId("colour"), std::string_view("blue"));
  const LoadedRun run = MadeRun({HostPlane(100), other.Encode()});
  const Found found = Find(run, {.text = "blue", .in = FindIn::kAll});
  EXPECT_EQ(found.total, 1u);
  EXPECT_EQ(run.rows[found.hits.at(0).row].worker, 1u);
  EXPECT_EQ(Find(run, {.text = "request", .in = FindIn::kAll}).total, 100u);
}

}  // namespace
}  // namespace strobe::viewer
