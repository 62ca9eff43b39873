// Names of events and stats, and texts that repeat. Each is stored once. XPlane has such tables per
// plane; ours is shared by all planes, and each plane knows which names it uses.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collector/trace/kineto/byte_chunks.h"

namespace strobe::kineto {

class NameTable {
 public:
  // When the table has this many texts or bytes, further ones are stored where they are used.
  static constexpr std::size_t kMaxNames = 256 << 10, kMaxBytes = 16 << 20;

  NameTable();

  // The id of a text, from 1; 0 if the table is full and does not have it.
  std::uint32_t Id(std::string_view text);
  std::string_view Text(std::uint32_t id) const { return texts_[id]; }
  // Returns an id, above those in the table, for a name that is not in it.
  std::int64_t NextExtraId() { return next_extra_++; }

 private:
  struct Slot {
    std::uint32_t hash = 0, id = 0;
  };
  std::string_view Keep(std::string_view text);
  void Grow();

  const std::uint64_t seed_;  // Random, so that nobody can choose texts that collide.
  std::vector<Slot> slots_;
  std::vector<std::string_view> texts_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_left_ = 0, bytes_ = 0;
  char* block_at_ = nullptr;
  std::int64_t next_extra_ = 2 * kMaxNames;
};

// The names that one plane uses.
class PlaneNames {
 public:
  explicit PlaneNames(NameTable& table) : table_(table) {}

  std::int64_t EventId(std::string_view name);
  std::int64_t StatId(std::string_view name);
  // The id for a text that is the value of a stat; 0 if it has to be stored with the event.
  std::int64_t RefId(std::string_view text);
  // Notes that the plane uses a stat's name that is in the table. Returns `id`.
  std::int64_t UseStat(std::uint32_t id);
  // Takes over the names of another plane, whose own list is empty then.
  void Take(PlaneNames& other);

  // The plane's fields for its names: their size, and the fields piece by piece. The second call
  // frees what it passes on.
  std::uint64_t EncodedSize() const;
  template <typename Visit>
  void Drain(const Visit& visit) {
    std::string entry;
    ForEachUsed([&](std::uint32_t field, std::uint32_t id) {
      entry.clear();
      AppendEntry(field, id, table_.Text(id), entry);
      visit(entry);
    });
    more_.Drain(visit);
  }

 private:
  static constexpr std::uint32_t kEvents = 4, kStats = 5;  // Fields of a plane.

  template <typename Visit>
  void ForEachUsed(const Visit& visit) const;
  std::int64_t More(std::uint32_t field, std::string_view name);
  static void AppendEntry(std::uint32_t field, std::int64_t id, std::string_view name,
                          std::string& to);

  NameTable& table_;
  std::vector<std::uint64_t> events_, stats_;  // A bit per id in the table.
  ByteChunks more_;                            // The encoded names that are not in the table.
};

template <typename Visit>
void PlaneNames::ForEachUsed(const Visit& visit) const {
  for (const auto& [field, bits] : {std::pair(kEvents, &events_), std::pair(kStats, &stats_)}) {
    for (std::size_t word = 0; word < bits->size(); ++word) {
      for (std::uint64_t left = (*bits)[word]; left != 0; left &= left - 1)
        visit(field, static_cast<std::uint32_t>(word * 64) +
                         static_cast<std::uint32_t>(__builtin_ctzll(left)));
    }
  }
}

}  // namespace strobe::kineto
