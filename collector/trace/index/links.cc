#include "collector/trace/index/links.h"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "collector/trace/index/sort_by_key.h"
#include "collector/trace/xplane/links.h"
#include "collector/trace/xplane/varint.h"

// How links are made, with memory that does not grow with the number of ends:
//
//  1. While a line is read, its ends are packed to a fifth of their size (PackedEnds). Those of a
//     long line are divided into parts by a hash of their ids, so that all ends of an id are in the
//     parts of one number.
//  2. JoinLines goes through the parts in as many passes as it takes for one pass's ends to fit
//  into
//     `at_once`. Each pass unpacks its parts of all lines, and frees them.
//  3. JoinEnds sorts the ends of a pass by id. The ends of one id are a group.
//  4. JoinGroup pairs the ends of a group. If only one end is on a side, the ids are enough; if
//  not,
//     the begins of the events decide (xplane::LinkEnds).
//  5. The links are sorted by the event that they leave and encoded as `outs`; then they are
//     reversed, sorted again, and encoded as `ins`.
//  6. With several passes, step 5 packs the sorted links of each pass instead (PackedLinks), and
//     Merge encodes them at the end.
namespace strobe::index {
namespace {

bool SameEvent(const LinkEnd& a, const LinkEnd& b) {
  return (a.track & ~LinkEnd::kIncoming) == (b.track & ~LinkEnd::kIncoming) &&
         a.ordinal == b.ordinal;
}

void AddLink(const LinkEnd& from, const LinkEnd& to, std::vector<Link>& links) {
  if (SameEvent(from, to)) return;
  links.push_back({.track = from.track,
                   .ordinal = from.ordinal,
                   .other_track = to.track & ~LinkEnd::kIncoming,
                   .other_ordinal = to.ordinal});
}

struct TimedEnd {
  std::int64_t begin_ps = 0;
  LinkEnd end{};
};

// The ends, sorted by the begins of their events.
std::vector<TimedEnd> ByBegin(std::span<const LinkEnd> ends, const BeginOf& begin_of) {
  std::vector<TimedEnd> timed;
  timed.reserve(ends.size());
  for (const LinkEnd& end : ends)
    timed.push_back({begin_of(end.track & ~LinkEnd::kIncoming, end.ordinal), end});
  std::ranges::stable_sort(timed, {}, &TimedEnd::begin_ps);
  return timed;
}

// Links the ends of one id. Sorting puts the outgoing ends before the incoming ones, because
// kIncoming is the highest bit of a track.
void JoinGroup(std::span<LinkEnd> group, const BeginOf& begin_of, std::vector<Link>& links) {
  std::sort(group.begin(), group.end(), [](const LinkEnd& a, const LinkEnd& b) {
    return std::tie(a.track, a.ordinal) < std::tie(b.track, b.ordinal);
  });
  const auto split =
      std::find_if(group.begin(), group.end(), [](const LinkEnd& e) { return e.incoming(); });
  const std::span<LinkEnd> outs(group.begin(), split), ins(split, group.end());
  if (outs.empty() || ins.empty()) return;
  if (outs.size() == 1 || ins.size() == 1) {
    for (std::size_t i = 0; i < std::max(outs.size(), ins.size()); ++i)
      AddLink(outs[std::min(i, outs.size() - 1)], ins[std::min(i, ins.size() - 1)], links);
    return;
  }
  const bool has_middle = std::ranges::any_of(outs, [&](const LinkEnd& out) {
    return std::ranges::binary_search(
        ins, std::pair(out.track | LinkEnd::kIncoming, out.ordinal), {},
        [](const LinkEnd& e) { return std::pair(e.track, e.ordinal); });
  });
  const std::vector<TimedEnd> from = ByBegin(outs, begin_of), to = ByBegin(ins, begin_of);
  xplane::LinkEnds(
      from, to, has_middle,
      [](const TimedEnd& a, const TimedEnd& b) { return SameEvent(a.end, b.end); },
      [&](const TimedEnd& a, const TimedEnd& b) { AddLink(a.end, b.end, links); });
}

// Orders links by track and ordinal.
std::uint64_t KeyOf(const Link& link) { return std::uint64_t{link.track} << 32 | link.ordinal; }

void SortLinks(std::vector<Link>& links, std::size_t threads) {
  SortByKey(links, threads, [](const Link& link) { return KeyOf(link); });
}

// Swaps the two ends of each link.
void ReverseLinks(std::vector<Link>& links) {
  for (Link& link : links) {
    std::swap(link.track, link.other_track);
    std::swap(link.ordinal, link.other_ordinal);
  }
}

// Encodes lists of links that come sorted.
class LinkEncoder {
 public:
  explicit LinkEncoder(Spill* spill) { lists_.data = Chunks(spill); }
  void Add(const Link& link) {
    if (lists_.first_block.size() <= link.track) BeginTrack(link.track);
    if (in_track_++ % kBlockEvents == 0) {
      lists_.blocks.push_back({link.ordinal, 0, lists_.data.size()});
      ordinal_ = link.ordinal;
      other_ = 0;
    }
    ++lists_.blocks.back().links;
    char* at = lists_.data.WriteSpace();
    wire::PutVarint(link.ordinal - ordinal_, at);
    wire::PutVarint(link.other_track, at);
    wire::PutVarint(wire::ZigZag(link.other_ordinal - other_), at);
    lists_.data.Wrote(at);
    ordinal_ = link.ordinal;
    other_ = link.other_ordinal;
  }
  LinkLists Finish(std::uint32_t tracks) {
    BeginTrack(tracks);
    return std::move(lists_);
  }

 private:
  void BeginTrack(std::uint32_t track) {
    lists_.first_block.resize(track + 1, lists_.blocks.size());
    in_track_ = 0;
  }

  LinkLists lists_;
  std::size_t in_track_ = 0;
  std::uint32_t ordinal_ = 0;
  std::int64_t other_ = 0;
};

// Sorted links, packed, until they are merged with others.
class PackedLinks {
 public:
  PackedLinks(const std::vector<Link>& links, Spill* spill) : bytes_(spill) {
    Link last;
    for (const Link& link : links) {
      char* at = bytes_.WriteSpace();
      wire::PutVarint(link.track - last.track, at);
      wire::PutVarint(link.track == last.track ? link.ordinal - last.ordinal : link.ordinal, at);
      wire::PutVarint(link.other_track, at);
      wire::PutVarint(wire::ZigZag(std::int64_t{link.other_ordinal} - last.other_ordinal), at);
      bytes_.Wrote(at);
      last = link;
    }
    bytes_.Shrink();
  }
  std::vector<Chunk> Release() { return std::move(bytes_).Release(); }

 private:
  Chunks bytes_;
};

// Reads packed links, and frees what has been read.
class LinkCursor {
 public:
  // Moving keeps the chunks where the reader expects them.
  LinkCursor(LinkCursor&&) noexcept = default;
  LinkCursor& operator=(LinkCursor&&) noexcept = default;
  explicit LinkCursor(PackedLinks links) : chunks_(links.Release()) { Advance(); }
  bool done() const { return done_; }
  const Link& link() const { return link_; }
  bool operator<(const LinkCursor& other) const { return KeyOf(link_) < KeyOf(other.link_); }

  void Advance() {
    while (reader_.done()) {  // A link never spans two chunks.
      if (next_ > 0) chunks_[next_ - 1] = Chunk(std::size_t{0});
      if (next_ == chunks_.size()) {
        done_ = true;
        return;
      }
      reader_ = wire::VarintReader(chunks_[next_++].view());
    }
    const auto track = static_cast<std::uint32_t>(reader_.Next());
    const auto ordinal = static_cast<std::uint32_t>(reader_.Next());
    link_.ordinal = track == 0 ? link_.ordinal + ordinal : ordinal;
    link_.track += track;
    link_.other_track = static_cast<std::uint32_t>(reader_.Next());
    link_.other_ordinal += static_cast<std::uint32_t>(wire::UnZigZag(reader_.Next()));
  }

 private:
  std::vector<Chunk> chunks_;
  std::size_t next_ = 0;
  wire::VarintReader reader_{std::string_view()};
  Link link_{};
  bool done_ = false;
};

LinkLists Encode(const std::vector<Link>& links, std::uint32_t tracks, Spill* spill) {
  LinkEncoder encoder(spill);
  for (const Link& link : links) encoder.Add(link);
  return encoder.Finish(tracks);
}

LinkLists Merge(std::vector<PackedLinks> runs, std::uint32_t tracks, Spill* spill) {
  std::vector<LinkCursor> cursors;
  for (PackedLinks& run : runs) {
    cursors.emplace_back(std::move(run));
    if (cursors.back().done()) cursors.pop_back();
  }
  LinkEncoder encoder(spill);
  while (!cursors.empty()) {  // They are few, so that a heap would not be faster.
    const auto least = std::min_element(cursors.begin(), cursors.end());
    encoder.Add(least->link());
    least->Advance();
    if (least->done()) cursors.erase(least);
  }
  return encoder.Finish(tracks);
}

}  // namespace

void PackedEnds::Add(const LinkEnd& end) {
  Part& part = parts_[parts_.size() == 1 ? 0 : PartOf(end.id)];
  char* at = part.bytes.WriteSpace();
  wire::PutVarint(wire::ZigZag(static_cast<std::int64_t>(end.id - part.last.id)), at);
  const std::uint64_t track = end.track & ~LinkEnd::kIncoming;
  wire::PutVarint(track << 1 | (end.incoming() ? 1 : 0), at);
  wire::PutVarint(wire::ZigZag(std::int64_t{end.ordinal} - part.last.ordinal), at);
  part.bytes.Wrote(at);
  part.last = end;
  ++size_;
}

void PackedEnds::Shrink() {
  for (Part& part : parts_) part.bytes.Shrink();
}

void PackedEnds::Unpack(unsigned first, unsigned last, std::uint32_t first_track,
                        std::vector<LinkEnd>& ends) {
  const bool whole = parts_.size() == 1;
  for (unsigned i = whole ? 0 : first; i < (whole ? 1 : last); ++i) {
    LinkEnd end;
    for (const std::string_view chunk : parts_[i].bytes.all()) {
      for (wire::VarintReader reader(chunk); !reader.done();) {
        end.id += static_cast<std::uint64_t>(wire::UnZigZag(reader.Next()));
        const std::uint64_t track = reader.Next();
        end.track = first_track + static_cast<std::uint32_t>(track >> 1);
        if ((track & 1) != 0) end.track |= LinkEnd::kIncoming;
        end.ordinal += static_cast<std::uint32_t>(wire::UnZigZag(reader.Next()));
        if (const unsigned part = PartOf(end.id); part >= first && part < last) ends.push_back(end);
      }
    }
    if (!whole || last == kParts) parts_[i] = {};
  }
}

void JoinEnds(std::vector<LinkEnd>& ends, std::size_t threads, const BeginOf& begin_of,
              std::vector<Link>& links) {
  SortByKey(ends, threads, [](const LinkEnd& end) { return end.id; });
  links.clear();
  links.reserve(ends.size() / 2);  // Exact when every id has two ends, which is the usual case.
  for (std::size_t begin = 0, end = 0; begin < ends.size(); begin = end) {
    while (end < ends.size() && ends[end].id == ends[begin].id) ++end;
    JoinGroup(std::span(ends).subspan(begin, end - begin), begin_of, links);
  }
}

JoinedLinks JoinLines(const std::vector<LineEnds>& lines, std::uint32_t tracks, std::size_t threads,
                      const BeginOf& begin_of, std::size_t at_once, Spill* spill) {
  std::size_t size = 0;
  for (const LineEnds& line : lines) size += line.ends->size();
  const std::size_t passes =
      std::clamp<std::size_t>((size + at_once - 1) / at_once, 1, PackedEnds::kParts);
  JoinedLinks joined;
  std::vector<PackedLinks> outs, ins;
  // Kept from pass to pass, because the kernel takes long to provide this much memory.
  std::vector<LinkEnd> ends;
  std::vector<Link> links;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const auto begin = [&](std::size_t i) {
      return static_cast<unsigned>(i * PackedEnds::kParts / passes);
    };
    ends.clear();
    // Room for the pass's parts, which differ little in size. One pass may have one part more than
    // another.
    ends.reserve(size * (begin(pass + 1) - begin(pass)) / PackedEnds::kParts * 33 / 32);
    for (const LineEnds& line : lines)
      line.ends->Unpack(begin(pass), begin(pass + 1), line.first_track, ends);
    JoinEnds(ends, threads, begin_of, links);
    SortLinks(links, threads);
    if (passes == 1)
      joined.outs = Encode(links, tracks, spill);
    else
      outs.emplace_back(links, spill);
    ReverseLinks(links);
    SortLinks(links, threads);
    if (passes == 1)
      joined.ins = Encode(links, tracks, spill);
    else
      ins.emplace_back(links, spill);
  }
  if (passes == 1) return joined;
  joined.outs = Merge(std::move(outs), tracks, spill);
  joined.ins = Merge(std::move(ins), tracks, spill);
  return joined;
}

}  // namespace strobe::index
