// `strobe inspect`, `strobe report`, `strobe convert` and `strobe merge`: show traces, and write
// them in other formats.
#pragma once
#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>

namespace strobe::cli {

struct InspectFlags {
  std::string location{}, storage_config{}, output = "table", plane{};
  std::size_t top = 10;  // Kinds of events for each plane.
  bool expect_device = false;
};
struct ReportFlags {
  std::string location{}, other{}, storage_config{},
      output = "table";  // other: "" = no comparison.
  std::size_t top = 10;  // Operations of all workers.
};
struct ConvertFlags {
  std::string location{}, storage_config{}, to{}, out{};
  bool quiet = false, no_stats = false;
};

void AddInspectFlags(CLI::App& command, InspectFlags& flags);
void AddReportFlags(CLI::App& command, ReportFlags& flags);
void AddConvertFlags(CLI::App& command, ConvertFlags& flags);
void AddMergeFlags(CLI::App& command, ConvertFlags& flags);  // For RunConvert.

// These return the exit code; see common_flags.h.
int RunInspect(const InspectFlags& flags);
int RunReport(const ReportFlags& flags);
int RunConvert(const ConvertFlags& flags);

}  // namespace strobe::cli
