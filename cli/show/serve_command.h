// `strobe serve`: serves the trace viewer to many people, each of whom sees what the cluster's RBAC
// allows.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace strobe::cli {

struct ServeFlags {
  std::string config{}, kubeconfig{};
};

void AddServeFlags(CLI::App& command, ServeFlags& flags);

// Serves until SIGINT or SIGTERM. Returns the exit code; see common_flags.h.
int RunServe(const ServeFlags& flags);

}  // namespace strobe::cli
