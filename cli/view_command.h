// `strobe view`: the trace viewer's server.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace strobe {

struct ViewFlags {
  std::string place{}, storage_config{}, listen = "127.0.0.1:6016", cache{};
  std::vector<std::string> hosts{};
};

void AddViewFlags(CLI::App& command, ViewFlags& flags);

// Serves until it is interrupted: 0. 1 = the place cannot be read or the address not be had; 2 =
// the flags are wrong.
int RunView(const ViewFlags& flags);

}  // namespace strobe
