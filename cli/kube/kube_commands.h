// The commands for clusters: `kubectl strobe ...`, which are also `strobe kube ...`.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/base/command.h"
#include "cli/kube/kube_flags.h"

namespace strobe::cli {

std::vector<Command> AddKubeCommands(CLI::App& app);

// Each returns the exit code.
int RunKubeCapture(const KubeCaptureFlags& flags);
int RunKubeCheck(const KubeCheckFlags& flags);
int RunKubeWhy(const KubeEvidenceFlags& flags);
int RunKubeStacks(const KubeEvidenceFlags& flags);
int RunKubeView(const KubeViewFlags& flags);
int RunKubeList(const KubeListFlags& flags);
int RunKubeGet(const KubeNamesFlags& flags);
int RunKubeCancel(const KubeNamesFlags& flags);
int RunKubeRm(const KubeNamesFlags& flags);
int RunKubeLogs(const KubeNamesFlags& flags);
int RunKubeCp(const KubeNamesFlags& flags);

// Prints the words that complete `line`, for the shell; kubectl runs it under the name
// kubectl_complete-strobe.
int RunKubeCompletion(const CLI::App& app, const std::vector<std::string>& line);

}  // namespace strobe::cli
