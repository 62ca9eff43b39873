#include "collector/index/links.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "collector/index/sort_by_key.h"
#include "collector/index/varint.h"

namespace strobe::index {
namespace {

// Links the ends of one id. Sorting puts the outgoing ends before the incoming ones, because
// kIncoming is the highest bit of a track.
void JoinGroup(std::span<LinkEnd> group, std::vector<Link>& links) {
  std::sort(group.begin(), group.end(), [](const LinkEnd& a, const LinkEnd& b) {
    return std::tie(a.track, a.ordinal) < std::tie(b.track, b.ordinal);
  });
  const auto ins = static_cast<std::size_t>(
      std::find_if(group.begin(), group.end(), [](const LinkEnd& e) { return e.incoming(); }) -
      group.begin());
  const std::size_t incoming = group.size() - ins;
  if (ins == 0 || incoming == 0) return;
  for (std::size_t i = 0; i < std::max(ins, incoming); ++i) {
    const LinkEnd& from = group[std::min(i, ins - 1)];
    const LinkEnd& to = group[ins + std::min(i, incoming - 1)];
    links.push_back({from.track, from.ordinal, to.track & ~LinkEnd::kIncoming, to.ordinal});
  }
}

}  // namespace

void PackedEnds::Add(const LinkEnd& end) {
  std::string& tail = bytes_.Tail();
  PutVarint(ZigZag(static_cast<std::int64_t>(end.id - last_.id)), tail);
  const std::uint64_t track = end.track & ~LinkEnd::kIncoming;
  PutVarint(track << 1 | (end.incoming() ? 1 : 0), tail);
  PutVarint(ZigZag(std::int64_t{end.ordinal} - last_.ordinal), tail);
  last_ = end;
  ++size_;
}

void PackedEnds::Unpack(std::uint32_t first_track, std::vector<LinkEnd>& ends) {
  LinkEnd end;
  for (const std::string& chunk : bytes_.all()) {  // An end never spans two chunks.
    for (VarintReader reader(chunk); !reader.done();) {
      end.id += static_cast<std::uint64_t>(UnZigZag(reader.Next()));
      const std::uint64_t track = reader.Next();
      end.track = first_track + static_cast<std::uint32_t>(track >> 1);
      if ((track & 1) != 0) end.track |= LinkEnd::kIncoming;
      end.ordinal += static_cast<std::uint32_t>(UnZigZag(reader.Next()));
      ends.push_back(end);
    }
  }
  *this = {};
}

std::vector<Link> JoinEnds(std::vector<LinkEnd> ends, std::size_t threads) {
  SortByKey(ends, threads, [](const LinkEnd& end) { return end.id; });
  std::vector<Link> links;
  links.reserve(ends.size() / 2);  // Exact when every id has two ends, which is the usual case.
  for (std::size_t begin = 0, end = 0; begin < ends.size(); begin = end) {
    while (end < ends.size() && ends[end].id == ends[begin].id) ++end;
    JoinGroup(std::span(ends).subspan(begin, end - begin), links);
  }
  return links;
}

void SortLinks(std::vector<Link>& links, std::size_t threads) {
  SortByKey(links, threads,
            [](const Link& link) { return std::uint64_t{link.track} << 32 | link.ordinal; });
}

void ReverseLinks(std::vector<Link>& links, std::size_t threads) {
  for (Link& link : links) {
    std::swap(link.track, link.other_track);
    std::swap(link.ordinal, link.other_ordinal);
  }
  SortLinks(links, threads);
}

LinkLists EncodeLinks(const std::vector<Link>& links, std::uint32_t tracks) {
  LinkLists lists;
  lists.first_block.reserve(tracks + 1);
  std::size_t next = 0;
  for (std::uint32_t track = 0; track < tracks; ++track) {
    lists.first_block.push_back(lists.blocks.size());
    std::uint32_t ordinal = 0;
    std::int64_t other = 0;
    for (std::size_t n = 0; next < links.size() && links[next].track == track; ++next, ++n) {
      const Link& link = links[next];
      if (n % kBlockEvents == 0) {
        lists.blocks.push_back({link.ordinal, 0, lists.data.size()});
        ordinal = link.ordinal;
        other = 0;
      }
      ++lists.blocks.back().links;
      std::string& tail = lists.data.Tail();
      PutVarint(link.ordinal - ordinal, tail);
      PutVarint(link.other_track, tail);
      PutVarint(ZigZag(link.other_ordinal - other), tail);
      ordinal = link.ordinal;
      other = link.other_ordinal;
    }
  }
  lists.first_block.push_back(lists.blocks.size());
  return lists;
}

}  // namespace strobe::index
