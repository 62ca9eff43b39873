#include "collector/trace/kineto/names.h"

#include <cstring>
#include <random>
#include <utility>

#include "collector/trace/xplane/wire.h"

namespace strobe::kineto {
namespace {

constexpr std::size_t kBlock = 64 << 10;

__extension__ using Wide = unsigned __int128;

std::uint64_t Fold(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

template <typename Word>
std::uint64_t Load(const char* at) {
  Word word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Reads a short text, of up to 16 bytes, as two words. They overlap if it is shorter.
std::pair<std::uint64_t, std::uint64_t> TwoWords(std::string_view text) {
  const char* const at = text.data();
  const std::size_t size = text.size();
  if (size >= 8) return {Load<std::uint64_t>(at), Load<std::uint64_t>(at + size - 8)};
  if (size >= 4) return {Load<std::uint32_t>(at), Load<std::uint32_t>(at + size - 4)};
  if (size == 0) return {0, 0};
  return {Load<std::uint8_t>(at) << 16 | Load<std::uint8_t>(at + size / 2) << 8 |
              Load<std::uint8_t>(at + size - 1),
          0};
}

// Hashes sixteen bytes at a time, as wyhash does.
std::uint64_t Hash(std::string_view text, std::uint64_t seed) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  std::uint64_t hash = seed ^ text.size() * kOdd;
  for (; text.size() > 16; text.remove_prefix(16))
    hash =
        Fold(hash ^ Load<std::uint64_t>(text.data()), kOdd ^ Load<std::uint64_t>(text.data() + 8));
  const auto [first, last] = TwoWords(text);
  return Fold(hash ^ first, kOdd ^ seed ^ last);
}

bool Same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  return a.size() > 16 ? a == b : TwoWords(a) == TwoWords(b);
}

std::uint64_t RandomSeed() {
  std::random_device random;
  return static_cast<std::uint64_t>(random()) << 32 | random() | 1;
}

void Mark(std::uint32_t id, std::vector<std::uint64_t>& bits) {
  if (bits.size() <= id / 64) bits.resize(id / 64 + 1);
  bits[id / 64] |= std::uint64_t{1} << id % 64;
}

}  // namespace

NameTable::NameTable() : seed_(RandomSeed()), slots_(1024), texts_(1) {}

std::uint32_t NameTable::Id(std::string_view text) {
  const std::uint64_t hash = Hash(text, seed_);
  const auto high = static_cast<std::uint32_t>(hash >> 32);
  std::size_t at = hash & (slots_.size() - 1);
  for (; slots_[at].id != 0; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].hash == high && Same(texts_[slots_[at].id], text)) return slots_[at].id;
  }
  if (texts_.size() > kMaxNames || bytes_ + text.size() > kMaxBytes) return 0;
  const auto id = static_cast<std::uint32_t>(texts_.size());
  slots_[at] = {high, id};
  texts_.push_back(Keep(text));
  if (texts_.size() * 2 > slots_.size()) Grow();
  return id;
}

std::string_view NameTable::Keep(std::string_view text) {
  bytes_ += text.size();
  if (text.empty()) return "";
  if (text.size() > kBlock / 4) {
    // A long text gets a block of its own; the block that is being filled stays in use.
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(text.size()));
    std::memcpy(blocks_.back().get(), text.data(), text.size());
    return {blocks_.back().get(), text.size()};
  }
  if (text.size() > block_left_) {
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(kBlock));
    block_at_ = blocks_.back().get();
    block_left_ = kBlock;
  }
  std::memcpy(block_at_, text.data(), text.size());
  const std::string_view kept(block_at_, text.size());
  block_at_ += text.size();
  block_left_ -= text.size();
  return kept;
}

void NameTable::Grow() {
  slots_.assign(slots_.size() * 2, {});
  for (std::uint32_t id = 1; id < texts_.size(); ++id) {
    const std::uint64_t hash = Hash(texts_[id], seed_);
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at].id != 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = {static_cast<std::uint32_t>(hash >> 32), id};
  }
}

std::int64_t PlaneNames::EventId(std::string_view name) {
  const std::uint32_t id = table_.Id(name);
  if (id == 0) return More(kEvents, name);
  Mark(id, events_);
  return id;
}

std::int64_t PlaneNames::StatId(std::string_view name) {
  const std::int64_t id = RefId(name);
  return id == 0 ? More(kStats, name) : id;
}

std::int64_t PlaneNames::RefId(std::string_view text) {
  const std::uint32_t id = table_.Id(text);
  if (id != 0) Mark(id, stats_);
  return id;
}

std::int64_t PlaneNames::UseStat(std::uint32_t id) {
  Mark(id, stats_);
  return id;
}

void PlaneNames::Take(PlaneNames& other) {
  for (const auto& [from, to] :
       {std::pair(&other.events_, &events_), std::pair(&other.stats_, &stats_)}) {
    if (to->size() < from->size()) to->resize(from->size());
    for (std::size_t i = 0; i < from->size(); ++i) (*to)[i] |= (*from)[i];
    from->clear();
  }
  more_.Take(other.more_);
}

std::int64_t PlaneNames::More(std::uint32_t field, std::string_view name) {
  std::string entry;
  const std::int64_t id = table_.NextExtraId();
  AppendEntry(field, id, name, entry);
  more_.Append(entry);
  return id;
}

// Both maps' messages have the id in field 1 and the name in field 2.
void PlaneNames::AppendEntry(std::uint32_t field, std::int64_t id, std::string_view name,
                             std::string& to) {
  std::string metadata, entry;
  wire::AppendVarintField(1, static_cast<std::uint64_t>(id), metadata);
  wire::AppendBytesField(2, name, metadata);
  wire::AppendVarintField(1, static_cast<std::uint64_t>(id), entry);
  wire::AppendBytesField(2, metadata, entry);
  wire::AppendBytesField(field, entry, to);
}

std::uint64_t PlaneNames::EncodedSize() const {
  std::uint64_t size = more_.size();
  std::string entry;
  ForEachUsed([&](std::uint32_t field, std::uint32_t id) {
    entry.clear();
    AppendEntry(field, id, table_.Text(id), entry);
    size += entry.size();
  });
  return size;
}

}  // namespace strobe::kineto
