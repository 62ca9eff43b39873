// Decides which objects of a run belong to a capture. Anybody who may capture into a logdir can
// choose a run's name, so a capture overwrites nothing and deletes only what carries its own id.
// The id is in a trace's Strobe plane, in a field of the manifest, and in the gzip header of a file
// that a process's own profiler wrote. Blocks within the store's own limits.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "collector/store/object_store.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::service {

// Larger manifests are neither written nor read.
inline constexpr std::uint64_t kMaxManifestBytes = 12u << 20;

// Larger reports, and larger evidence.json, are neither written nor read.
inline constexpr std::uint64_t kMaxReportBytes = 2u << 20;

// Creates the run's strobe.json. OK also if it exists with the same bytes. AlreadyExists if it
// exists with others; nothing is written then.
absl::Status PublishManifest(storage::ObjectStore& store, std::string_view run,
                             const std::string& manifest);

// Like PublishManifest, for the run's report.json.
absl::Status PublishReport(storage::ObjectStore& store, std::string_view run,
                           const std::string& report);

// Like PublishReport, for the run's evidence.json.
absl::Status PublishEvidence(storage::ObjectStore& store, std::string_view run,
                             const std::string& evidence);

// Creates a file of a worker's evidence. OK also if there is one.
absl::Status PutEvidenceFile(storage::ObjectStore& store, std::string_view run,
                             std::string_view worker, const v1::EvidenceFile& file);

struct Reclaimed {
  std::uint64_t deleted = 0;
  std::uint64_t left = 0;  // Objects of the run that are not the capture's.
};

// Deletes what the capture wrote into the run, or into the numbered one that it claimed, and the
// files that viewers have derived from its traces. PermissionDenied, with nothing deleted, if the
// run has objects but none of this capture.
absl::StatusOr<Reclaimed> ReclaimRun(storage::ObjectStore& store, std::string_view run,
                                     std::string_view capture_id);

// The id of the capture that the manifest describes; empty when the text is no manifest.
std::string CaptureOfManifest(std::string_view text);
// Like CaptureOfManifest, for a report.
std::string CaptureOfReport(std::string_view text);

}  // namespace strobe::service
