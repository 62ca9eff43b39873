// `strobe inspect`, `convert` and `merge`: what traces hold, and traces for other tools.
#pragma once
#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>

namespace strobe {

struct InspectFlags {
  std::string place{}, storage_config{}, output = "table", plane{};
  std::size_t top = 10;
  bool expect_device = false;
};
struct ConvertFlags {
  std::string place{}, storage_config{}, to = "chrome", out{};
  bool quiet = false;
};

void AddInspectFlags(CLI::App& command, InspectFlags& flags);
void AddConvertFlags(CLI::App& command, ConvertFlags& flags);
void AddMergeFlags(CLI::App& command, ConvertFlags& flags);  // Then RunConvert.

// 0 = done; 1 = the traces cannot be read or the output not be written; 2 = the flags are wrong.
int RunInspect(const InspectFlags& flags);
int RunConvert(const ConvertFlags& flags);

}  // namespace strobe
