// `strobe why` and `strobe stacks`: why a job stands still, from files that people have.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace strobe {

struct WhyFlags {
  std::vector<std::string> paths{};
  std::string output = "text";
};

struct StacksFlags {
  std::vector<std::string> paths{};
  std::string output = "text";
  bool threads = false;  // All threads, and not only the main ones.
};

void AddWhyFlags(CLI::App& command, WhyFlags& flags);
void AddStacksFlags(CLI::App& command, StacksFlags& flags);

// These return the exit code; see common_flags.h.
int RunWhy(const WhyFlags& flags);
int RunStacks(const StacksFlags& flags);

}  // namespace strobe
