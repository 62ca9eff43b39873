#include "viewer/answers/tiles.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "collector/trace/xplane/builder.h"
#include "collector/trace/xplane/names.h"
#include "collector/trace/xplane/varint.h"
#include "common/base/strings.h"
#include "tests/unit/viewer/made_run.h"

namespace strobe::viewer {
namespace {

struct Span {
  std::int64_t begin_ps, end_ps;
};
struct Value {
  std::int64_t at_ps;
  double value;
};
// What one worker did, on its own clock.
struct Work {
  std::vector<Span> outer{}, inner{};
  std::vector<Value> values{};
};

// Events of any length side by side, many with events inside of them, and a counter.
Work RandomWork(std::mt19937_64& random, int events) {
  Work work;
  const auto any = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  };
  std::int64_t now = any(1'000'000);
  for (int i = 0; i < events; ++i) {
    const std::int64_t length = std::int64_t{1} << any(i % 97 == 0 ? 29 : 21);
    const Span& outer = work.outer.emplace_back(Span{now, now + length + any(length)});
    for (std::int64_t at = outer.begin_ps + 1 + any(length); at + 1 < outer.end_ps;) {
      const std::int64_t end = at + 1 + any(std::min<std::int64_t>(outer.end_ps - at, 1 << 20));
      if (end >= outer.end_ps) break;
      work.inner.push_back({at, end});
      at = end + any(length);
      if (work.inner.size() > 3 * work.outer.size()) break;
    }
    work.values.push_back({now + any(length), static_cast<double>(any(1000))});
    now = outer.end_ps + (i % 3 == 0 ? 0 : any(1 << 18));
  }
  return work;
}

std::string TraceOf(const Work& work, std::int64_t zero_ns) {
  xplane::PlaneBuilder host(xplane::kHostPlane);
  host.BeginLine(1, "main", 0);
  for (const auto* spans : {&work.outer, &work.inner}) {
    for (const Span& span : *spans)
      host.AddEvent(host.EventId(spans == &work.outer ? "outer" : "inner"), span.begin_ps,
                    span.end_ps - span.begin_ps);
  }
  host.BeginLine(2, xplane::kCounterLine, 0);
  for (const Value& value : work.values) {
    host.AddEvent(host.EventId("memory"), value.at_ps, 0);
    host.AddEventStat(host.StatId("bytes"), value.value);
  }
  xplane::PlaneBuilder environment(xplane::kTaskEnvironmentPlane);
  environment.AddPlaneStat(xplane::kProfileStart, static_cast<std::uint64_t>(zero_ns));
  return host.Encode() + environment.Encode();
}

// One track of an answer, as web/timeline/decode.js reads it: times in units from the window's
// begin.
struct Decoded {
  struct Item {
    std::int64_t begin, end;
    std::uint64_t flags, count;
    bool single;  // It has the times of one event, not those of a slot.
  };
  struct Sample {
    std::int64_t at;
    double least, most;
  };
  std::uint64_t row, track, counter, size;
  std::int64_t phase;
  std::vector<Item> items{};
  std::vector<Sample> samples{};
};

std::vector<Decoded> Decode(const std::string& answer) {
  std::size_t at = 0;
  const auto next = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(answer.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  EXPECT_EQ(next(), 1u);
  std::vector<Decoded> tracks(next());
  for (Decoded& track : tracks) {
    track.row = next(), track.track = next(), track.counter = next(), track.size = next();
    track.phase = wire::UnZigZag(next());
    (track.counter != 0 ? track.samples.resize(track.size) : track.items.resize(track.size));
  }
  for (std::uint64_t texts = next(); texts > 0; --texts) at += next();
  for (Decoded& track : tracks) {
    std::int64_t now = track.phase;
    for (Decoded::Item& item : track.items) item.begin = now += wire::UnZigZag(next());
  }
  for (Decoded& track : tracks) {
    for (Decoded::Item& item : track.items) {
      const std::uint64_t length = next();
      item.end = item.begin + static_cast<std::int64_t>(length / 4), item.flags = length % 4;
    }
  }
  for (Decoded& track : tracks) {
    for (std::size_t i = 0; i < track.items.size(); ++i) next();
  }
  for (Decoded& track : tracks) {
    for (Decoded::Item& item : track.items) item.count = next();
  }
  for (Decoded& track : tracks) {
    for (Decoded::Item& item : track.items) {
      const auto busy = static_cast<unsigned char>(answer.at(at++));
      item.single = item.count == 1 && busy == 255;
    }
  }
  for (Decoded& track : tracks) {
    std::int64_t now = track.phase;
    for (Decoded::Sample& sample : track.samples) sample.at = now += wire::UnZigZag(next());
  }
  for (Decoded& track : tracks) {
    for (Decoded::Sample& sample : track.samples) {
      std::memcpy(&sample.least, answer.data() + at, 8);
      std::memcpy(&sample.most, answer.data() + at + 8, 8);
      at += 24;
    }
  }
  EXPECT_EQ(at, answer.size());
  return tracks;
}

// The page's tiles.
constexpr std::uint32_t kSlots = 512;

struct Tile {
  std::int64_t begin_ps;
  std::uint32_t level;

  std::int64_t unit_ps() const { return std::int64_t{1} << (level > 6 ? level - 6 : 0); }
  std::int64_t units() const { return (std::int64_t{kSlots} << level) / unit_ps(); }
};

// Checks the units of a tile, one by one, with the events as they were made: what lies in an event
// is drawn, and what is drawn lies in an event or in a slot that holds several.
void ExpectDrawn(const std::vector<Span>& events, std::int64_t shift_ps, const Tile& tile,
                 const Decoded& track) {
  const auto units = static_cast<std::size_t>(tile.units());
  // The page draws the units of a tile only, and at least a pixel of each item.
  std::vector<bool> drawn(units), held(units), near(units);
  const auto fill = [&](std::vector<bool>& which, std::int64_t from, std::int64_t to) {
    for (std::int64_t i = std::max<std::int64_t>(from, 0); i < std::min(to, tile.units()); ++i)
      which[static_cast<std::size_t>(i)] = true;
  };
  for (const Decoded::Item& item : track.items) {
    fill(drawn, item.begin, std::max(item.end, item.begin + 1));
    if (!item.single) fill(near, item.begin - 1, item.end + 1);
  }
  const auto unit = [&](std::int64_t ps) {
    const std::int64_t at = ps + shift_ps - tile.begin_ps, size = tile.unit_ps();
    return at >= 0 ? at / size : -((size - 1 - at) / size);
  };
  const std::int64_t slot_ps = std::int64_t{1} << tile.level;
  for (const Span& event : events) {
    const std::int64_t begin = unit(event.begin_ps);
    // What is shorter than a slot may be moved within the slot in which it begins.
    if (event.end_ps - event.begin_ps >= slot_ps) fill(held, begin + 1, unit(event.end_ps) - 1);
    if (begin > 0 && begin < tile.units()) {
      const auto at = static_cast<std::size_t>(begin);
      ASSERT_TRUE(drawn[at] || drawn[at - 1]) << "an event that is not drawn at unit " << at;
    }
    fill(near, unit(event.begin_ps) - 1, unit(event.end_ps) + 2);
  }
  for (std::size_t i = 0; i < units; ++i) {
    ASSERT_TRUE(drawn[i] || !held[i]) << "a gap at unit " << i << " of " << units;
    ASSERT_TRUE(near[i] || !drawn[i]) << "an event that is none at unit " << i << " of " << units;
  }
}

void ExpectValues(const std::vector<Value>& values, std::int64_t shift_ps, const Tile& tile,
                  const Decoded& track) {
  for (const Value& value : values) {
    const std::int64_t at = value.at_ps + shift_ps - tile.begin_ps;
    if (at < 0 || at >= tile.units() * tile.unit_ps()) continue;
    const bool shown =
        std::any_of(track.samples.begin(), track.samples.end(), [&](const Decoded::Sample& sample) {
          const std::int64_t from = (sample.at - 1) * tile.unit_ps();
          return from <= at && at < from + (std::int64_t{1} << tile.level) + 3 * tile.unit_ps() &&
                 sample.least <= value.value && value.value <= sample.most;
        });
    ASSERT_TRUE(shown) << "the value at " << at << " ps of the tile";
  }
}

// Regression: a tile of a worker whose clock begins later or earlier ended up to a slot too early,
// so that events had gaps at the borders of tiles, and short ones were not drawn.
TEST(Tiles, HoldEveryEventOfEachWorkerAtAnyZoomAndShiftOfItsClock) {
  constexpr std::int64_t kZeroNs = 1'790'000'000'000'000'000;
  std::mt19937_64 random(39);
  std::vector<std::string> traces;
  std::vector<Work> works;
  for (const std::int64_t late_ns : {0, 1, 777, 12'345, 262'144, 999'999}) {
    works.push_back(RandomWork(random, 1500));
    traces.push_back(TraceOf(works.back(), kZeroNs + late_ns));
  }
  const LoadedRun run = MadeRun(traces);
  ASSERT_EQ(run.workers.size(), works.size());
  for (const std::uint32_t level : {0u, 3u, 6u, 10u, 14u, 17u, 20u, 22u, 24u}) {
    const std::int64_t span = std::int64_t{kSlots} << level;
    for (int i = 0; i < 4; ++i) {
      // Around an event's begin, because the finest tiles are mostly empty elsewhere.
      const std::size_t at = random() % works.size();
      const Span& event = works[at].outer[random() % works[at].outer.size()];
      const Tile tile{(event.begin_ps + run.workers[at].shift_ps) / span * span, level};
      TileRequest request{.begin_ps = tile.begin_ps, .level = level, .slots = kSlots};
      for (std::uint32_t row = 0; row < run.rows.size(); ++row) request.rows.push_back(row);
      for (const Decoded& track : Decode(*EncodeTiles(run, request, nullptr))) {
        const std::uint32_t worker = run.rows[track.row].worker;
        const std::int64_t shift_ps = run.workers[worker].shift_ps;
        SCOPED_TRACE(StrCat("level ", level, ", from ", tile.begin_ps, " ps, shift ", shift_ps,
                            ", track ", track.track));
        const Work& work = works[worker];
        if (track.counter != 0)
          ExpectValues(work.values, shift_ps, tile, track);
        else
          ExpectDrawn(track.track == 0 ? work.outer : work.inner, shift_ps, tile, track);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// What the page relies on where it joins the tiles of a row.
TEST(Tiles, TheSlotOnABorderIsTheSameInBothTiles) {
  constexpr std::int64_t kZeroNs = 1'790'000'000'000'000'000;
  std::mt19937_64 random(40);
  const Work work = RandomWork(random, 500);
  const LoadedRun run = MadeRun({TraceOf(work, kZeroNs), TraceOf(work, kZeroNs + 777)});
  for (const std::uint32_t level : {8u, 12u, 18u}) {
    const std::int64_t span = std::int64_t{kSlots} << level;
    const std::int64_t at = run.workers[1].shift_ps + work.outer[100].begin_ps;
    TileRequest request{.begin_ps = at / span * span, .level = level, .slots = kSlots};
    for (std::uint32_t row = 0; row < run.rows.size(); ++row)
      if (run.rows[row].worker == 1) request.rows.push_back(row);
    const std::vector<Decoded> first = Decode(*EncodeTiles(run, request, nullptr));
    request.begin_ps += span;
    const std::vector<Decoded> second = Decode(*EncodeTiles(run, request, nullptr));
    const std::int64_t units = std::int64_t{kSlots} << std::min(level, 6u);
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_LE(second[i].phase, 0);
      for (const Decoded::Item& item : first[i].items) {
        // What begins in the slot on the border.
        if (item.begin < units + second[i].phase || item.single) continue;
        EXPECT_THAT(second[i].items, testing::Contains(testing::AllOf(
                                         testing::Field(&Decoded::Item::begin, item.begin - units),
                                         testing::Field(&Decoded::Item::count, item.count))))
            << "level " << level;
      }
    }
  }
}

}  // namespace
}  // namespace strobe::viewer
