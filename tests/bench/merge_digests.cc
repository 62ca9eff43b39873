// merge_digests write DIRECTORY WORKERS STEPS CALLS [exact]: writes the digests of a synthetic job,
// one of whose workers is slowed. With `exact` their clock offsets have no error, for a reader that
// has measured clocks itself.
// merge_digests read DIRECTORY: reads them one after another, as the operator gets them, and makes
// the report.
// merge_digests report DIRECTORY: the same with all of report.json, whose size it prints in place
// of the operations. merge_digests job FILE.txt.gz: makes the report of a published job of
// tests/data/straggler-analysis.
// The last three print the processor's seconds for merging and for the report, the peak of the
// memory in KiB, and the headline; `read` and `job` before it also the operations, and the seconds
// for the slowdown of each part, which the report leaves out and the published answers have.
// merge_digests answers FILE.txt.gz: prints the slowdown of the job and of its parts, as JSON with
// the words of the published answers.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "collector/trace/digest/encode.h"
#include "collector/trace/report/digest_operations.h"
#include "collector/trace/report/headline.h"
#include "collector/trace/report/run_report.h"
#include "collector/trace/report/stragglers.h"
#include "tests/fakes/published_job.h"
#include "tests/fakes/slowdown_parts.h"
#include "tests/fakes/synthetic_job.h"

namespace {

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int Write(const std::filesystem::path& directory, char** numbers, bool exact) {
  strobe::SyntheticJob job{
      .workers = std::stoul(numbers[0]),
      .steps = std::stoul(numbers[1]),
      .collectives = std::stoul(numbers[2]),
      .slowed = {{.worker = 5, .cause = strobe::report::Cause::kInput, .ms = 40}}};
  if (exact) job.smallest_clock_error_ms = job.largest_clock_error_ms = 0;
  for (const strobe::digest::Digest& digest : strobe::Simulate(job).digests)
    std::ofstream(directory / digest.worker, std::ios::binary)
        << strobe::digest::EncodeDigest(digest);
  return 0;
}

int Report(const strobe::report::Job& job, double began) {
  const double merged = ProcessorSeconds();
  const auto report = strobe::report::FindStragglers(job);
  const double ended = ProcessorSeconds();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::size_t operations = 0;
  for (const auto& step : job.steps) operations += step.operations.size();
  strobe::report::Replays replays(job);
  const double before_parts = ProcessorSeconds();
  (void)strobe::report::ComputeSlowdownParts(job, replays);
  std::printf("%.4f %.4f %ld %zu %.4f %s\n", merged - began, ended - merged, usage.ru_maxrss,
              operations, ProcessorSeconds() - before_parts,
              strobe::report::Headline(job, report).c_str());
  return 0;
}

// Adds the digests of all files in the directory. Returns false after it has told what it cannot
// read.
template <typename Merger>
bool AddAll(const std::filesystem::path& directory, Merger& merger) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    const auto digest = strobe::digest::DecodeDigest(bytes.str());
    if (!digest.ok()) {
      std::fprintf(stderr, "%s\n", digest.status().ToString().c_str());
      return false;
    }
    merger.Add(*digest);
  }
  return true;
}

int Read(const std::filesystem::path& directory) {
  const double began = ProcessorSeconds();
  strobe::report::DigestMerger merger;
  if (!AddAll(directory, merger)) return 1;
  return Report(merger.Finish(), began);
}

int ReadForReport(const std::filesystem::path& directory) {
  const double began = ProcessorSeconds();
  strobe::report::RunReport report;
  if (!AddAll(directory, report)) return 1;
  const double merged = ProcessorSeconds();
  const strobe::report::MadeReport made = report.Finish("uid-1", "run", 2 << 20);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("%.3f %.3f %ld %zu %s\n", merged - began, ProcessorSeconds() - merged,
              usage.ru_maxrss, made.json.size(), made.headline.c_str());
  return 0;
}

int Fail(const absl::Status& status) {
  return std::fprintf(stderr, "%s\n", status.ToString().c_str()), 1;
}

int ReportPublished(const std::string& path) {
  const auto operations = strobe::ReadPublishedJob(path);
  if (!operations.ok()) return Fail(operations.status());
  const double began = ProcessorSeconds();
  const auto job = strobe::report::MakePipelineJob(*operations);
  if (!job.ok()) return Fail(job.status());
  return Report(*job, began);
}

// The slowdowns of parts whose names are `prefix` and a key of the published answers.
nlohmann::json PartsJson(const std::vector<strobe::report::PartSlowdown>& parts,
                         std::string_view prefix) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& part : parts) json[part.part.substr(prefix.size())] = part.slowdown;
  return json;
}

int AnswerPublished(const std::string& path) {
  const auto operations = strobe::ReadPublishedJob(path);
  if (!operations.ok()) return Fail(operations.status());
  const auto job = strobe::report::MakePipelineJob(*operations);
  if (!job.ok()) return Fail(job.status());
  strobe::report::Replays replays(*job);
  const auto slowdown = strobe::report::ComputeSlowdownParts(*job, replays);
  if (!slowdown) return Fail(absl::NotFoundError("no step can be replayed"));
  const nlohmann::json json = {
      {"blocking_slowdown", strobe::report::ComputeSlowdown(*job, replays).value_or(0)},
      {"blocking_decompose_by_dp_rank", PartsJson(slowdown->by_replica, "replica ")},
      {"blocking_decompose_by_stage", PartsJson(slowdown->by_stage, "stage ")},
      {"blocking_decompose_by_optype", PartsJson(slowdown->by_type, "")},
      {"Mw", slowdown->slowest_worker_share.value_or(0)},
      {"Ms", slowdown->last_stage_share.value_or(0)}};
  std::printf("%s\n", json.dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "write" && (argc == 6 || argc == 7)) return Write(argv[2], argv + 3, argc == 7);
  if (mode == "read") return Read(argv[2]);
  if (mode == "report") return ReadForReport(argv[2]);
  if (mode == "job") return ReportPublished(argv[2]);
  if (mode == "answers") return AnswerPublished(argv[2]);
  std::fprintf(stderr, "merge_digests write|read|report|job|answers PATH [WORKERS STEPS CALLS]\n");
  return 2;
}
