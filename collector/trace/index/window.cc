#include "collector/trace/index/window.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "collector/trace/index/buckets.h"
#include "common/base/saturated.h"

// How Look draws a track in a window, with time that depends on the number of slots rather than of
// events:
//
//  1. ReachingInto: events that began before the window and reach into it are items of their own.
//  2. Choose the coarsest stored level that is not coarser than the window's.
//  3. FromBuckets: raise the buckets of that level to the window's slots; or, if the window is
//  finer
//     than every stored level, FromBlocks: read the events. A block within one slot counts as a
//     whole.
//  4. Slots gathers what begins in one slot. At the slot's end it writes the longest event as an
//  item
//     of its own if it is as long as the slot, and the other events as one item.
//
// LookAtValues does the same for a counter: it begins one sample before the window, and takes a
// block's stored range where the block lies in one slot.
namespace strobe::index {
namespace {

// A duration from a bucket as an integer. A damaged file may hold any float: negative ones and NaN
// become 0, and large ones are capped.
std::int64_t Picoseconds(float length) {
  constexpr float kMaxLength = 4e18f;
  return length > 0 ? static_cast<std::int64_t>(std::min(length, kMaxLength)) : 0;
}

// Gathers the events of one slot at a time and turns each slot into items.
class Slots {
 public:
  Slots(const Index& index, const Track& track, std::uint32_t level, std::vector<Item>& items)
      : index_(index), track_(track), level_(level), items_(items) {}

  // `longest_begin` is where the bucket's longest event begins. It is exact when that is the only
  // event, and otherwise rounded down to 2^-32 slots.
  void Add(const Bucket& bucket, std::int64_t longest_begin) {
    if (any_ && now_.slot == bucket.slot) {
      const bool longer = bucket.longest_ps > now_.longest_ps;
      MergeInto(bucket, now_);
      if (longer) begin_ = longest_begin;
      return;
    }
    Flush();
    now_ = bucket;
    begin_ = longest_begin;
    any_ = true;
  }

  void Flush() {
    if (!any_) return;
    any_ = false;
    const std::int64_t from = now_.slot << level_, step = std::int64_t{1} << level_;
    const std::int64_t longest = Picoseconds(now_.longest_ps);
    const bool alone = now_.count == 1 || longest >= step;
    const std::uint32_t others = now_.count - (alone ? 1 : 0);
    if (others > 0) {
      const float busy = (now_.busy_ps - (alone ? now_.longest_ps : 0)) / static_cast<float>(step);
      items_.push_back({.begin_ps = from,
                        .end_ps = AddSaturated(from, step),
                        .name = now_.name,
                        .count = others,
                        .ordinal = now_.ordinal,
                        .busy = std::clamp(busy, 0.0f, 1.0f)});
    }
    if (alone) AddOne(longest);
  }

 private:
  void AddOne(std::int64_t length) {
    Entry entry{.begin_ps = begin_, .duration_ps = length};
    // A float has 24 bits. The end of an event so much longer than a slot would be visibly wrong,
    // so that its exact length is looked up.
    if (length >> std::min(level_ + 22, 62u) > 0)
      entry = index_.EntryAt(track_, now_.ordinal).value_or(entry);
    items_.push_back({.begin_ps = entry.begin_ps,
                      .end_ps = entry.end_ps(),
                      .name = now_.name,
                      .count = 1,
                      .ordinal = now_.ordinal,
                      .busy = 1});
  }

  const Index& index_;
  const Track& track_;
  const std::uint32_t level_;
  std::vector<Item>& items_;
  Bucket now_{};
  std::int64_t begin_ = 0;
  bool any_ = false;
};

void AddEntry(const Entry& entry, std::uint32_t ordinal, std::uint32_t level, Slots& slots) {
  const auto length = static_cast<float>(entry.duration_ps);
  slots.Add({.slot = entry.begin_ps >> level,
             .count = 1,
             .name = entry.name,
             .ordinal = ordinal,
             .longest_ps = length,
             .busy_ps = length},
            entry.begin_ps);
}

// Adds the events that begin in the window, from the buckets of a level that is not coarser.
void FromBuckets(const Index& index, const Level& level, const Window& window, Slots& slots) {
  const std::span<const Bucket> buckets = index.buckets(level);
  const std::int64_t first = window.begin_ps >> level.level, last = window.end_ps >> level.level;
  auto bucket = std::lower_bound(buckets.begin(), buckets.end(), first,
                                 [](const Bucket& b, std::int64_t slot) { return b.slot < slot; });
  for (; bucket != buckets.end() && bucket->slot < last; ++bucket) {
    const double step = std::ldexp(1.0, static_cast<int>(level.level) - 32);
    const std::int64_t begin =
        AddSaturated(bucket->slot << level.level, static_cast<std::int64_t>(bucket->at * step));
    slots.Add(Raised(*bucket, window.level - level.level), begin);
  }
}

// Adds the events that begin in the window, from the events themselves. A block that lies in one
// slot is added as a whole.
void FromBlocks(const Index& index, const Track& track, const Window& window, Slots& slots) {
  const std::span<const Block> blocks = index.blocks(track);
  auto block = std::lower_bound(blocks.begin(), blocks.end(), window.begin_ps,
                                [](const Block& b, std::int64_t at) { return b.begin_ps < at; });
  if (block != blocks.begin()) --block;
  for (; block != blocks.end() && block->begin_ps < window.end_ps; ++block) {
    const auto number = static_cast<std::uint32_t>(block - blocks.begin()) * kBlockEvents;
    const std::int64_t slot = block->begin_ps >> window.level;
    const bool whole = block->begin_ps >= window.begin_ps && block->events > 1 &&
                       block->end_ps >> window.level == slot;
    if (whole) {
      slots.Add({.slot = slot,
                 .count = block->events,
                 .name = block->name,
                 .ordinal = number + block->longest,
                 .longest_ps = block->longest_ps,
                 .busy_ps = block->busy_ps},
                block->begin_ps);
      continue;
    }
    std::uint32_t ordinal = number;
    index.ForEachEntry(*block, [&](const Entry& entry) {
      if (entry.begin_ps >= window.begin_ps && entry.begin_ps < window.end_ps)
        AddEntry(entry, ordinal, window.level, slots);
      ++ordinal;
    });
  }
}

// Appends the events that begin before `at_ps` and end after it, in the order of their begins.
void ReachingInto(const Index& index, const Track& track, std::int64_t at_ps,
                  std::vector<Item>& items) {
  index.ForEachEntry(track, index.FirstReaching(track, at_ps), index.FirstFrom(track, at_ps),
                     [&](std::uint64_t ordinal, const Entry& entry) {
                       if (entry.end_ps() > at_ps)
                         items.push_back({.begin_ps = entry.begin_ps,
                                          .end_ps = entry.end_ps(),
                                          .name = entry.name,
                                          .count = 1,
                                          .ordinal = static_cast<std::uint32_t>(ordinal),
                                          .busy = 1});
                     });
}

}  // namespace

std::vector<Item> Look(const Index& index, const Track& track, const Window& asked) {
  Window window = asked;
  window.level = std::min(window.level, kCoarsest);
  std::vector<Item> items;
  ReachingInto(index, track, window.begin_ps, items);
  Slots slots(index, track, window.level, items);
  const Level* best = nullptr;
  for (const Level& level : index.levels(track)) {
    if (level.level <= window.level) best = &level;
  }
  if (best != nullptr)
    FromBuckets(index, *best, window, slots);
  else
    FromBlocks(index, track, window, slots);
  slots.Flush();
  return items;
}

std::vector<Sample> LookAtValues(const Index& index, const Track& track, const Window& window) {
  std::vector<Sample> samples;
  const std::span<const double> values = index.values(track);
  const std::span<const Range> ranges = index.ranges(track);
  const std::span<const Block> blocks = index.blocks(track);
  std::uint64_t first = index.FirstFrom(track, window.begin_ps);
  if (first > 0) --first;  // The value that is valid when the window begins.
  std::optional<std::int64_t> slot;
  const auto add = [&](std::int64_t at, const Range& range, double last, std::uint32_t count) {
    if (!slot || *slot != at >> window.level) {
      slot = at >> window.level;
      samples.push_back(
          {.at_ps = at, .least = range.least, .most = range.most, .last = last, .count = count});
      return;
    }
    Sample& sample = samples.back();
    sample.least = std::min(sample.least, range.least);
    sample.most = std::max(sample.most, range.most);
    sample.last = last;
    sample.count += count;
  };
  for (std::uint64_t number = first / kBlockEvents;
       number < blocks.size() && number < ranges.size() && blocks[number].begin_ps < window.end_ps;
       ++number) {
    const Block& block = blocks[number];
    std::uint64_t ordinal = number * kBlockEvents;
    const std::uint64_t end = ordinal + block.events;
    const bool whole = ordinal >= first && end <= values.size() && block.events > 0 &&
                       block.end_ps < window.end_ps &&
                       block.begin_ps >> window.level == block.end_ps >> window.level;
    if (whole) {
      add(block.begin_ps, ranges[number], values[end - 1], block.events);
      continue;
    }
    index.ForEachEntry(block, [&](const Entry& entry) {
      if (ordinal >= first && ordinal < values.size() && entry.begin_ps < window.end_ps)
        add(entry.begin_ps, {values[ordinal], values[ordinal]}, values[ordinal], 1);
      ++ordinal;
    });
  }
  return samples;
}

}  // namespace strobe::index
