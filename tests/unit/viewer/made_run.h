// Runs made of planes, loaded into memory.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "viewer/loaded_run.h"

namespace strobe::viewer {

// `traces`: one encoded XSpace per worker.
inline LoadedRun MadeRun(const std::vector<std::string>& traces) {
  std::vector<convert::OpenTrace> open;
  for (const std::string& trace : traces)
    open.push_back(
        {"w" + std::to_string(open.size()), "", std::make_unique<const std::string>(trace)});
  Progress progress;
  absl::StatusOr<LoadedRun> run = LoadRun("run", std::move(open), {}, 1, progress);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *std::move(run) : LoadedRun{};
}

// The number of the row of that name.
inline std::uint32_t RowNamed(const LoadedRun& run, std::string_view name) {
  for (std::uint32_t row = 0; row < run.rows.size(); ++row) {
    if (run.LineOf(row) == name) return row;
  }
  ADD_FAILURE() << "there is no row " << name;
  return 0;
}

}  // namespace strobe::viewer
