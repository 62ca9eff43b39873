// Runs made of planes, loaded into memory.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collector/trace/xplane/builder.h"
#include "viewer/run/loaded_run.h"

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

// A SparseCore's plane, whose lines are not in the order in which they are shown.
inline std::string SparseCorePlane() {
  xplane::PlaneBuilder core("/device:TPU:0 SparseCore 0");
  std::int64_t line = 0;
  for (const auto& [name, event] :
       {std::pair("XLA TraceMe", "note"), std::pair("Sparse Core Ops", "gather"),
        std::pair("Sparse Core Modules", "jit_step(1)"), std::pair("Sparse Core Steps", "7")}) {
    core.BeginLine(++line, name, 0);
    core.AddEvent(core.EventId(event), 0, 1'000'000);
  }
  return core.Encode();
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
