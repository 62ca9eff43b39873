#include "operator/core/namespace_line.h"

#include <iterator>

namespace strobe {

void NamespaceLine::TakeOut(const std::string& key, const Entry& entry) {
  const auto found = spaces_.find(entry.space);
  if (found == spaces_.end()) return;
  Space& space = found->second;
  space.waiting.erase({entry.since, key});
  space.trying.erase(entry.tries);
  space.running.erase(key);
  if (space.waiting.empty() && space.trying.empty() && space.running.empty()) spaces_.erase(found);
}

std::vector<std::string> NamespaceLine::First(const std::string& space) const {
  const auto found = spaces_.find(space);
  if (found == spaces_.end() || found->second.waiting.empty()) return {};
  return {std::get<std::string>(*found->second.waiting.begin())};
}

Crowd NamespaceLine::Try(const std::string& space_name, const std::string& key, WallTime since) {
  Entry& entry = entries_[key];
  TakeOut(key, entry);
  entry = {space_name, since, ++last_try_};
  Space& space = spaces_[space_name];
  Crowd crowd;
  crowd.active = static_cast<int>(space.running.size() + space.trying.size());
  const auto older = space.waiting.lower_bound({since, key});
  crowd.ahead = static_cast<int>(std::distance(space.waiting.begin(), older));
  for (const auto& [number, other] : space.trying) entries_[other].counted = true;
  space.trying.emplace(entry.tries, key);
  return crowd;
}

std::vector<std::string> NamespaceLine::Begin(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  TakeOut(key, found->second);
  found->second.tries = 0;
  spaces_[found->second.space].running.insert(key);
  return First(found->second.space);
}

std::vector<std::string> NamespaceLine::Wait(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  const Entry entry = found->second;
  TakeOut(key, entry);
  found->second.tries = 0;
  Space& space = spaces_[entry.space];
  space.waiting.insert({entry.since, key});
  // Later tries that counted this one as under way were judged by a number that is too high, so the
  // first in the line tries again. This request itself need not.
  std::vector<std::string> first = First(entry.space);
  if (!entry.counted || first.front() == key) first.clear();
  return first;
}

std::vector<std::string> NamespaceLine::Leave(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  const Entry entry = found->second;
  TakeOut(key, entry);
  entries_.erase(found);
  return First(entry.space);
}

}  // namespace strobe
