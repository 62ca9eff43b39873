// `strobe ls`, `strobe cp` and `strobe rm`: list, copy and delete the runs of logdirs.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "cli/base/run_choice.h"

namespace strobe::cli {

struct LsFlags {
  std::string location{}, storage_config{}, output = "table";
  std::size_t limit = 100;  // Runs.
  bool all = false, objects = false;
};
struct CpFlags {
  std::string from{}, to{}, storage_config{};
  RunChoice choice{};
  bool quiet = false;
};
struct RmFlags {
  std::string location{}, storage_config{};
  RunChoice choice{};
  bool yes = false, dry_run = false;
};

void AddLsFlags(CLI::App& command, LsFlags& flags);
void AddCpFlags(CLI::App& command, CpFlags& flags);
void AddRmFlags(CLI::App& command, RmFlags& flags);

// These return the exit code; see common_flags.h.
int RunLs(const LsFlags& flags);
int RunCp(const CpFlags& flags);
int RunRm(const RmFlags& flags);

}  // namespace strobe::cli
