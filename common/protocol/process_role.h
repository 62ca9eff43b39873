// What the processes of a worker do in their service or job, as they say it themselves.
#pragma once

namespace strobe {

// The first of the processes that says its role; null if none does, or if two say different ones.
// `processes` are the rows of a report, as protocol messages have them.
template <typename Processes>
const typename Processes::value_type* ProcessWithRole(const Processes& processes) {
  const typename Processes::value_type* first = nullptr;
  for (const auto& process : processes) {
    if (process.role().empty()) continue;
    if (first != nullptr && first->role() != process.role()) return nullptr;
    if (first == nullptr) first = &process;
  }
  return first;
}

}  // namespace strobe
