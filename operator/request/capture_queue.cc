#include "operator/request/capture_queue.h"

#include <algorithm>
#include <iterator>

namespace strobe::request {

void CaptureQueue::Insert(const Entry& entry) {
  for (const std::string& worker : entry.workers) lines_[worker].insert(entry.ticket);
}

void CaptureQueue::Erase(const Entry& entry) {
  for (const std::string& worker : entry.workers) {
    const auto line = lines_.find(worker);
    line->second.erase(entry.ticket);
    if (line->second.empty()) lines_.erase(line);
  }
}

bool CaptureQueue::IsFirst(const Entry& entry) const {
  return std::all_of(entry.workers.begin(), entry.workers.end(), [&](const std::string& worker) {
    return *lines_.at(worker).begin() == entry.ticket;
  });
}

CaptureQueue::Position CaptureQueue::Enter(const std::string& key, WallTime since,
                                           const std::set<std::string>& workers) {
  const auto [found, fresh] = entries_.try_emplace(key);
  Entry& entry = found->second;
  const bool waits = fresh || std::get<bool>(entry.ticket);
  if (!fresh) Erase(entry);
  entry = {{waits, since, key}, workers};
  Insert(entry);
  if (!waits) return {};
  if (IsFirst(entry)) {
    Hold(key, workers);
    return {};
  }
  Position place;
  for (const std::string& worker : workers) {
    const std::set<Ticket>& line = lines_.at(worker);
    const auto own = line.find(entry.ticket);
    const auto ahead = static_cast<std::size_t>(std::distance(line.begin(), own));
    if (ahead > place.ahead) place = {ahead, worker, std::get<std::string>(*std::prev(own))};
  }
  return place;
}

void CaptureQueue::Hold(const std::string& key, const std::set<std::string>& workers) {
  const auto [found, fresh] = entries_.try_emplace(key);
  if (!fresh) Erase(found->second);
  const bool waits = false;
  found->second = {.ticket = {waits, WallTime{}, key}, .workers = workers};
  Insert(found->second);
}

std::vector<std::string> CaptureQueue::Leave(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  const Entry left = std::move(found->second);
  entries_.erase(found);
  Erase(left);
  std::set<std::string> next;
  for (const std::string& worker : left.workers) {
    const auto line = lines_.find(worker);
    if (line == lines_.end()) continue;
    const std::string& first = std::get<std::string>(*line->second.begin());
    const Entry& entry = entries_.at(first);
    if (std::get<bool>(entry.ticket) && IsFirst(entry)) next.insert(first);
  }
  return {next.begin(), next.end()};
}

std::size_t CaptureQueue::waiting() const {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(),
                    [](const auto& entry) { return std::get<bool>(entry.second.ticket); }));
}

}  // namespace strobe::request
