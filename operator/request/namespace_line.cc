#include "operator/request/namespace_line.h"

#include <iterator>

namespace strobe::request {

void NamespaceLine::TakeOut(const std::string& key, const Entry& entry) {
  const auto found = namespaces_.find(entry.ns);
  if (found == namespaces_.end()) return;
  Namespace& ns = found->second;
  ns.waiting.erase({entry.since, key});
  ns.trying.erase(entry.tries);
  ns.running.erase(key);
  if (ns.waiting.empty() && ns.trying.empty() && ns.running.empty()) namespaces_.erase(found);
}

std::vector<std::string> NamespaceLine::First(const std::string& ns) const {
  const auto found = namespaces_.find(ns);
  if (found == namespaces_.end() || found->second.waiting.empty()) return {};
  return {std::get<std::string>(*found->second.waiting.begin())};
}

policy::EarlierCaptures NamespaceLine::Try(const std::string& name, const std::string& key,
                                           WallTime since) {
  Entry& entry = entries_[key];
  TakeOut(key, entry);
  entry = {name, since, ++last_try_};
  Namespace& ns = namespaces_[name];
  policy::EarlierCaptures earlier;
  earlier.active = static_cast<int>(ns.running.size() + ns.trying.size());
  const auto older = ns.waiting.lower_bound({since, key});
  earlier.ahead = static_cast<int>(std::distance(ns.waiting.begin(), older));
  for (const auto& [number, other] : ns.trying) entries_[other].counted = true;
  ns.trying.emplace(entry.tries, key);
  return earlier;
}

std::vector<std::string> NamespaceLine::Begin(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  TakeOut(key, found->second);
  found->second.tries = 0;
  namespaces_[found->second.ns].running.insert(key);
  return First(found->second.ns);
}

std::vector<std::string> NamespaceLine::Wait(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  const Entry entry = found->second;
  TakeOut(key, entry);
  found->second.tries = 0;
  Namespace& ns = namespaces_[entry.ns];
  ns.waiting.insert({entry.since, key});
  // Later tries counted this one as under way, so they were judged by a number that is too high.
  // The first in the line therefore tries again. This request itself need not.
  std::vector<std::string> first = First(entry.ns);
  if (!entry.counted || first.front() == key) first.clear();
  return first;
}

std::vector<std::string> NamespaceLine::Leave(const std::string& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return {};
  const Entry entry = found->second;
  TakeOut(key, entry);
  entries_.erase(found);
  return First(entry.ns);
}

}  // namespace strobe::request
