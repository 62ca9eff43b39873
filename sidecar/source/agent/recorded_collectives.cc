#include "sidecar/source/agent/recorded_collectives.h"

#include <algorithm>
#include <utility>

namespace strobe::source {

GuardedCollectives OpenCollectives(const std::string& ring_path) {
  GuardedCollectives opened;
  wire::CollectiveFile file = wire::CollectiveFile::Map(wire::CollectivePath(ring_path));
  if (!file) return opened;
  absl::StatusOr<ForeignMemory> guard =
      ForeignMemory::Guard(file.memory(), file.size(), /*writable=*/true);
  if (!guard.ok() || !file.Check()) return opened;
  opened.file = std::move(file);
  opened.guard = *std::move(guard);
  return opened;
}

void RecordedCollectives::Open() {
  const bool is_first = std::exchange(is_first_, false);
  opened_ = OpenCollectives(ring_path_);
  if (!opened_.file) return;
  const wire::CollectiveHeader& header = *opened_.file.header();
  activity_.library = header.library;
  // A file that is made during the capture belongs to it from its first call.
  if (is_first && !holds_before_) next_ = header.made.load(std::memory_order_acquire);
}

void RecordedCollectives::Close() {
  opened_.guard = {};  // Before the mapping ends, whose addresses another one may get.
  opened_ = {};
}

void RecordedCollectives::RequestDeviceTimes(std::uint64_t until_ns) {
  until_ns_ = until_ns;
  wants_times_ = wants_times_ || until_ns != 0;
  if (opened_.file) opened_.file.header()->device_times_until.store(until_ns_);
}

void RecordedCollectives::Drain(std::uint64_t& budget) {
  if (!opened_.file) {
    Open();
    if (!opened_.file) return;
    if (until_ns_ != 0) opened_.file.header()->device_times_until.store(until_ns_);
  }
  ReadAgain();
  const std::size_t known = activity_.calls.size();
  ReadNew(budget);
  // Only calls refer to communicators.
  if (activity_.calls.size() > known) activity_.communicators = opened_.file.Communicators();
}

void RecordedCollectives::ReadNew(std::uint64_t& budget) {
  // A call that a thread has begun and not told within so many others will never be told.
  constexpr std::uint64_t kPatience = 64;
  const wire::CollectiveFile& file = opened_.file;
  const std::uint64_t made = file.header()->made.load(std::memory_order_acquire);
  const std::uint64_t kept = std::min<std::uint64_t>(made, file.max_records());
  // What was overwritten before the first look is older than what the file holds, and not lost.
  const bool is_first_look = !next_.has_value();
  std::uint64_t next = next_.value_or(made - kept);
  if (next > made) next = made;  // The program was replaced, or forges it.
  if (next < made - kept) {
    activity_.lost += made - kept - next;
    next = made - kept;
  }
  for (; next < made; ++next) {
    wire::CollectiveCopy copy;
    if (!file.Read(next, copy)) {
      if (made - next < kPatience) break;
      if (!is_first_look || !activity_.calls.empty()) ++activity_.lost;
    } else if (budget < sizeof copy) {
      ++activity_.lost;
    } else {
      budget -= sizeof copy;
      activity_.calls.push_back(copy);
    }
  }
  next_ = next;
}

// The library enqueues a call soon after it began, and the device ends it later.
void RecordedCollectives::ReadAgain() {
  constexpr std::size_t kMostOpen = 4096, kMostOpenWithoutTimes = 64;
  const std::size_t most = wants_times_ ? kMostOpen : kMostOpenWithoutTimes;
  std::vector<wire::CollectiveCopy>& calls = activity_.calls;
  first_open_ = std::max(first_open_, calls.size() - std::min(calls.size(), most));
  for (std::size_t i = first_open_; i < calls.size(); ++i) {
    if (calls[i].has_device_times()) {
      if (i == first_open_) ++first_open_;
      continue;
    }
    wire::CollectiveCopy copy;
    if (opened_.file.Read(calls[i].number, copy)) calls[i] = copy;
  }
}

}  // namespace strobe::source
