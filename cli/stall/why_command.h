// `strobe why` and `strobe stacks`: why a job stands still, from files that people have, or from
// its sidecars.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace strobe::cli {

// What is looked at: files, or sidecars.
struct EvidenceFlags {
  std::vector<std::string> paths{};
  std::string workers{};
  bool insecure_plaintext = false;
  std::string output = "text";
};

struct WhyFlags : EvidenceFlags {};

struct StacksFlags : EvidenceFlags {
  bool threads = false;  // All threads, and not only the main ones.
};

void AddWhyFlags(CLI::App& command, WhyFlags& flags);
void AddStacksFlags(CLI::App& command, StacksFlags& flags);

// These return the exit code; see common_flags.h.
int RunWhy(const WhyFlags& flags);
int RunStacks(const StacksFlags& flags);

}  // namespace strobe::cli
