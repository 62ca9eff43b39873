// The report of a run, made of the digests of its workers: the content of report.json, its headline
// and the figures for metrics. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/trace/digest/digest.h"
#include "collector/trace/report/digest_operations.h"
#include "collector/trace/report/engine_times.h"
#include "collector/trace/report/stragglers.h"

namespace strobe::report {

// What is not known is nullopt.
struct RunFigures {
  std::optional<double> step_seconds{};  // The mean duration of a step.
  // How much longer a step is because of stragglers; 0 if it is known that there are none.
  std::optional<double> straggler_seconds{};
  // The share of the recorded time in which devices communicated and computed nothing.
  std::optional<double> exposed_communication{};
};

struct MadeReport {
  std::string headline{};
  std::string json{};  // The content of report.json.
  RunFigures figures{};
};

// Takes one digest after the other. Memory is bounded whatever the digests hold.
class RunReport {
 public:
  static constexpr std::size_t kMaxWorkerRows = 2000;  // The report lists no more workers.

  void Add(const digest::Digest& digest);
  // A worker of the job that has no digest, and why.
  void AddMissing(std::string_view worker, std::string_view why);
  // To be called once. If the JSON were longer than `max_bytes`, its lists are left out.
  MadeReport Finish(std::string_view capture_id, std::string_view run, std::size_t max_bytes);

 private:
  struct WorkerRow {
    std::string worker{};
    std::optional<std::uint32_t> rank{};
    std::optional<std::int64_t> clock_error_ns{};
    std::size_t steps = 0;
    digest::Knows knows{};
    digest::Breakdown time{};
    digest::HostTime host_time{};
  };
  struct OpRow {
    std::uint64_t count = 0;
    std::int64_t self_ns = 0;
    std::size_t workers = 0;
  };
  using OpKey = std::pair<digest::WorkKind, std::string>;

  void AddOps(const digest::Digest& digest);
  std::string HeadlineOf(const Job& job, const StragglerReport& stragglers,
                         const EngineReport& engine) const;
  RunFigures FiguresOf(const StragglerReport& stragglers) const;

  DigestMerger merger_{};
  EngineTimes engine_{};
  std::vector<WorkerRow> rows_{};
  std::vector<std::pair<std::string, std::string>> missing_{};  // The first ones, with their cause.
  std::size_t added_ = 0, missing_count_ = 0;
  std::map<OpKey, OpRow> ops_{};
  double span_ns_ = 0, exposed_ns_ = 0;  // Sums over all workers.
};

}  // namespace strobe::report
