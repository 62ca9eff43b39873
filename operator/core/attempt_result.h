// What an ended attempt amounts to. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/analysis/skew.h"
#include "operator/core/capture_spec.h"
#include "operator/core/start_plan.h"
#include "strobe/v1/manifest.pb.h"

namespace strobe {

struct WorkerResult {
  Target target{};
  bool ready = false;  // Answered preflight and could record.
  bool armed = false;
  Outcome outcome = Outcome::kUnknown;
  std::string message{};
  v1::Report report{};  // Empty when it was never armed.
  Nanos offset{};
  std::optional<Nanos> error{};
  Nanos wall_less_monotonic{};  // See CapturePlan.
};

struct AttemptResult {
  bool succeeded = false;
  bool cancelled = false;  // By the user.
  std::string reason{};    // One CamelCase word.
  std::string message{};
  int attempt = 1;
  std::string capture_id{}, run{};
  std::optional<StartPlan> plan{};
  std::optional<Nanos> duration{};      // When it was ended early.
  std::vector<WorkerResult> workers{};  // In the order of the targets.
  // As CaptureSpec has them.
  std::string workers_note{};
  std::optional<std::size_t> expected_workers{};
  std::size_t ok = 0;  // Workers whose trace counts.
  std::size_t armed = 0;
  std::size_t empty = 0;  // With a trace that has no or only a part of the wanted events.
  std::optional<Skew> skew{};
  bool synchronized = false;
  std::string sync_reason{}, sync_message{};
  std::uint64_t bytes = 0;
  std::uint64_t reports_replaced = 0;  // By newer ones before anybody had looked at them.
  std::string manifest_url{};          // Empty when no manifest could be written,
  std::string manifest_error{};        // for this reason.
};

// Start of recording against the planned start of the guard, on the worker's clock; positive is
// late. None when the trace did not say.
std::optional<Nanos> LatenessOf(const WorkerResult& worker);

// Does this worker count towards minWorkers? A late trace does when it is to be kept.
bool Counts(const WorkerResult& worker, const CaptureSpec& spec);

// Fills verdict, counts, skew and synchronization from the workers.
void Conclude(const CaptureSpec& spec, AttemptResult& result);

v1::Manifest ComposeManifest(const CaptureSpec& spec, const AttemptResult& result);
// The bytes of strobe.json, at most kMaxManifestBytes: of a larger one the details that explain the
// least are left out, from the workers that ended Ok first. InvalidArgument: it has text that is no
// UTF-8, or is too large without any detail.
absl::StatusOr<std::string> ManifestJson(v1::Manifest manifest);
inline constexpr std::size_t kMaxManifestBytes = 4u << 20;  // As sidecars take it.

// Workers that did not end Ok, worst first, ties by name.
std::vector<const WorkerResult*> WorstFirst(const AttemptResult& result);

}  // namespace strobe
