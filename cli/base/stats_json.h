// Writes a plane's statistics as JSON.
#pragma once
#include <nlohmann/json.hpp>

#include "collector/trace/analysis/event_stats.h"

namespace strobe::cli {

// All times are in picoseconds.
inline nlohmann::ordered_json StatsToJson(const analysis::PlaneStats& stats) {
  nlohmann::ordered_json kinds = nlohmann::ordered_json::array();
  for (const analysis::EventStats& kind : stats.kinds) {
    kinds.push_back({{"name", kind.name},
                     {"count", kind.count},
                     {"totalPs", kind.total_ps},
                     {"selfPs", kind.self_ps},
                     {"minPs", kind.min_ps},
                     {"maxPs", kind.max_ps}});
  }
  return {{"name", stats.plane},
          {"events", stats.events},
          {"beginPs", stats.begin_ps},
          {"endPs", stats.end_ps},
          {"kinds", std::move(kinds)}};
}

}  // namespace strobe::cli
