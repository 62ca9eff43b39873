// The report of a run whose workers have several roles: a report for each role and, where a role
// has several rank systems, for each of these. Workers are compared only with their like: a step of
// prefill says nothing about one of decode, and replicas of a server do not wait for one another.
// Pure.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collector/trace/digest/digest.h"
#include "collector/trace/report/run_report.h"

namespace strobe::report {

// Whose workers are compared with one another.
struct LikeWorkers {
  std::string role{}, group{};

  bool operator==(const LikeWorkers&) const = default;
};

// "decode", "decode (vllm-0)", "vllm-0", or "other workers" if neither is known.
std::string NameOf(const LikeWorkers& like);

// Takes one digest after the other, as RunReport does. Memory is bounded: beyond kMaxParts, and
// beyond kMaxCalls calls in several parts, workers count as missing.
class RoleReport {
 public:
  static constexpr std::size_t kMaxParts = 32;
  static constexpr std::size_t kMaxCalls = 1'000'000;

  void Add(const digest::Digest& digest);
  // A worker that has no digest, and why. `like` is empty where that is not known.
  void AddMissing(std::string_view worker, std::string_view why, const LikeWorkers& like = {});
  // To be called once. The report of workers that are all alike is that of RunReport. Otherwise it
  // has an entry in "roles" for each kind of them, which is a report of its own, and no steps,
  // operations or figures for all of them together.
  MadeReport Finish(std::string_view capture_id, std::string_view run, std::size_t max_bytes);

 private:
  struct Part {
    LikeWorkers like{};
    std::unique_ptr<RunReport> report{};
  };
  struct Missing {
    std::string worker{}, why{};
  };

  // Null if there are too many.
  RunReport* PartOf(const LikeWorkers& like);
  MadeReport FinishParts(std::string_view capture_id, std::string_view run, std::size_t max_bytes);

  std::vector<Part> parts_{};
  std::vector<Missing> unplaced_{};  // Workers of which neither role nor group is known.
  std::size_t calls_ = 0;
};

}  // namespace strobe::report
