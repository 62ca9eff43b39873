#include "collector/digest/launches.h"

#include <algorithm>
#include <utility>

#include "collector/xplane/wire.h"

namespace strobe::digest {
namespace {

bool HasSmallerKey(const Launch& a, const Launch& b) { return a.key < b.key; }

}  // namespace

void LaunchRun::Append(const Launch& launch) {
  if (size_ % kBlockLaunches == 0) {
    blocks_.push_back({launch, packed_.size()});
  } else {
    wire::AppendVarint(launch.key - last_.key, packed_);
    wire::AppendVarint(wire::ZigZag(launch.begin_ps - last_.begin_ps), packed_);
  }
  last_ = launch;
  ++size_;
}

void LaunchRun::Close() {
  blocks_.shrink_to_fit();
  packed_.shrink_to_fit();
}

void LaunchRun::Cursor::EnterBlock() {
  if (!valid()) return;
  const Block& block = run_->blocks_[block_];
  left_ = std::min(kBlockLaunches, run_->size_ - block_ * kBlockLaunches);
  launch_ = block.first;
  others_ = wire::VarintReader(std::string_view(run_->packed_).substr(block.at));
}

void LaunchRun::Cursor::Next() {
  if (--left_ == 0) {
    ++block_;
    return EnterBlock();
  }
  launch_.key += others_.Next();
  launch_.begin_ps += wire::UnZigZag(others_.Next());
}

std::optional<Launch> LaunchRun::Find(std::uint64_t key) const {
  // A block that begins with the key may follow one that ends with it.
  const auto behind = std::partition_point(
      blocks_.begin(), blocks_.end(), [&](const Block& block) { return block.first.key < key; });
  const std::size_t block =
      behind == blocks_.begin() ? 0 : static_cast<std::size_t>(behind - blocks_.begin()) - 1;
  for (Cursor cursor(*this, block); cursor.valid(); cursor.Next()) {
    if (cursor.launch().key == key) return cursor.launch();
    if (cursor.launch().key > key) break;
  }
  return std::nullopt;
}

void Launches::PackRecent() {
  if (recent_.empty()) return;
  if (!std::is_sorted(recent_.begin(), recent_.end(), HasSmallerKey))
    std::stable_sort(recent_.begin(), recent_.end(), HasSmallerKey);
  LaunchRun& run = runs_.emplace_back();
  for (const Launch& launch : recent_) run.Append(launch);
  run.Close();
  recent_.clear();
}

void Launches::Sort() {
  PackRecent();
  recent_.shrink_to_fit();
  const auto overlap = [](const LaunchRun& a, const LaunchRun& b) {
    return b.first_key() <= a.last_key();
  };
  if (std::adjacent_find(runs_.begin(), runs_.end(), overlap) != runs_.end()) Merge();
}

void Launches::Merge() {
  struct Source {
    std::size_t run = 0;
    LaunchRun::Cursor cursor;
  };
  // The smallest key comes first; of equal ones, that which was added first.
  const auto later = [](const Source& a, const Source& b) {
    const std::uint64_t x = a.cursor.launch().key, y = b.cursor.launch().key;
    return x != y ? x > y : a.run > b.run;
  };
  std::vector<Source> sources;
  for (std::size_t i = 0; i < runs_.size(); ++i)
    sources.push_back({i, LaunchRun::Cursor(runs_[i])});
  std::make_heap(sources.begin(), sources.end(), later);
  std::vector<LaunchRun> merged;
  while (!sources.empty()) {
    std::pop_heap(sources.begin(), sources.end(), later);
    Source& source = sources.back();
    if (merged.empty() || merged.back().size() == kRunLaunches) {
      if (!merged.empty()) merged.back().Close();
      merged.emplace_back();
    }
    merged.back().Append(source.cursor.launch());
    source.cursor.Next();
    if (source.cursor.valid()) {
      std::push_heap(sources.begin(), sources.end(), later);
    } else {
      runs_[source.run] = LaunchRun();
      sources.pop_back();
    }
  }
  if (!merged.empty()) merged.back().Close();
  runs_ = std::move(merged);
}

std::optional<std::int64_t> Launches::BeginOf(std::uint64_t process,
                                              std::int64_t correlation) const {
  const std::uint64_t key = KeyOf(process, correlation);
  const auto run = std::partition_point(runs_.begin(), runs_.end(),
                                        [&](const LaunchRun& one) { return one.last_key() < key; });
  if (run == runs_.end()) return std::nullopt;
  const std::optional<Launch> found = run->Find(key);
  return found ? std::optional(found->begin_ps) : std::nullopt;
}

}  // namespace strobe::digest
