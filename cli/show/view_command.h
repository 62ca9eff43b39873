// `strobe view`: serves the trace viewer.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "viewer/router.h"

namespace strobe::cli {

struct ViewFlags {
  std::vector<std::string> locations{};
  std::string storage_config{}, listen = "127.0.0.1:6016";
  std::string cache{};               // A folder; empty = the default one, "none" = no folder.
  std::vector<std::string> hosts{};  // See RouterOptions.
  std::string xprof{};               // See RouterOptions.
  std::string perfetto = viewer::RouterOptions().perfetto;
  std::string end_when_idle{};  // A duration; empty = it does not end by itself.
};

void AddViewFlags(CLI::App& command, ViewFlags& flags);

// Serves until SIGINT or SIGTERM, or until nobody has asked for a while if so wished. Returns the
// exit code; see common_flags.h.
int RunView(const ViewFlags& flags);

}  // namespace strobe::cli
