// `strobe ls`, `strobe cp` and `strobe rm`: the runs of a logdir, wherever it lies.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace strobe {

struct LsFlags {
  std::string place{}, storage_config{}, output = "table";
  std::size_t limit = 100;
  bool all = false, objects = false;
};
struct CpFlags {
  std::string from{}, to{}, storage_config{};
  std::vector<std::string> runs{};
  bool all = false, quiet = false;
};
struct RmFlags {
  std::string place{}, storage_config{}, older_than{};
  std::vector<std::string> runs{};
  bool all = false, yes = false, dry_run = false;
};

void AddLsFlags(CLI::App& command, LsFlags& flags);
void AddCpFlags(CLI::App& command, CpFlags& flags);
void AddRmFlags(CLI::App& command, RmFlags& flags);

// 0 = done; 1 = the store did not let us; 2 = the flags are wrong.
int RunLs(const LsFlags& flags);
int RunCp(const CpFlags& flags);
int RunRm(const RmFlags& flags);

}  // namespace strobe
