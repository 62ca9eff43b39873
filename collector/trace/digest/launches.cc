#include "collector/trace/digest/launches.h"

#include <algorithm>
#include <utility>

#include "collector/trace/xplane/wire.h"

namespace strobe::digest {
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
  rest_ = wire::VarintReader(std::string_view(run_->packed_).substr(block.at));
}

void LaunchRun::Cursor::Next() {
  if (--left_ == 0) {
    ++block_;
    return EnterBlock();
  }
  launch_.key += rest_.Next();
  launch_.begin_ps += wire::UnZigZag(rest_.Next());
}

std::optional<Launch> LaunchRun::Find(const Launch& wanted) const {
  // The first launch with the key may be in the block before the first that begins behind it, and
  // so may the last one that is not later.
  const auto behind = std::partition_point(
      blocks_.begin(), blocks_.end(), [&](const Block& block) { return block.first <= wanted; });
  const std::size_t block =
      behind == blocks_.begin() ? 0 : static_cast<std::size_t>(behind - blocks_.begin()) - 1;
  std::optional<Launch> found;
  for (Cursor cursor(*this, block); cursor.valid(); cursor.Next()) {
    const Launch& launch = cursor.launch();
    if (launch.key > wanted.key || (found && launch > wanted)) break;
    if (launch.key == wanted.key) found = launch;
  }
  return found;
}

void Launches::PackRecent() {
  if (recent_.empty()) return;
  if (!std::is_sorted(recent_.begin(), recent_.end())) std::sort(recent_.begin(), recent_.end());
  LaunchRun& run = runs_.emplace_back();
  for (const Launch& launch : recent_) run.Append(launch);
  run.Close();
  recent_.clear();
}

void Launches::Sort() {
  PackRecent();
  recent_.shrink_to_fit();
  const auto overlap = [](const LaunchRun& a, const LaunchRun& b) { return b.first() < a.last(); };
  if (std::adjacent_find(runs_.begin(), runs_.end(), overlap) != runs_.end()) Merge();
}

void Launches::Merge() {
  struct Source {
    std::size_t run = 0;
    LaunchRun::Cursor cursor;
  };
  const auto later = [](const Source& a, const Source& b) {
    return a.cursor.launch() > b.cursor.launch();
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

std::optional<std::int64_t> Launches::BeginOf(std::uint64_t process, std::int64_t correlation,
                                              std::int64_t at_ps) const {
  const Launch wanted{KeyOf(process, correlation), at_ps};
  const auto next = std::partition_point(
      runs_.begin(), runs_.end(), [&](const LaunchRun& run) { return run.first() <= wanted; });
  // The last launch that is not later; without one, the first of the next run.
  std::optional<Launch> found;
  if (next != runs_.begin()) found = std::prev(next)->Find(wanted);
  if (!found && next != runs_.end()) found = next->Find(wanted);
  return found ? std::optional(found->begin_ps) : std::nullopt;
}

}  // namespace strobe::digest
