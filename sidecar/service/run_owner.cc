#include "sidecar/service/run_owner.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "collector/store/run_claim.h"
#include "common/base/mutex.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/message_json.h"
#include "sidecar/capture/original.h"
#include "sidecar/capture/trace_report.h"
#include "strobe/v1/manifest.pb.h"

namespace strobe::service {
namespace {

constexpr std::size_t kReadsAtOnce = 16;
// Suffixes of the files that XProf and Strobe's viewer derive from one worker's trace and keep
// beside it.
constexpr std::array<std::string_view, 6> kDerivedSuffixes = {
    ".SSTABLE", ".metadata.SSTABLE", ".trie.SSTABLE", ".op_stats.pb", ".op_stats_v2.pb", ".index"};
// Names of the files that XProf derives from all traces of a run together.
constexpr std::string_view kAllHosts = "ALL_HOSTS";
constexpr std::string_view kCacheVersion = "cache_version.txt";

// The keys of a run's objects: those that the capture may delete, and the rest.
struct Sorted {
  std::vector<std::string> ours, foreign;
};

absl::StatusOr<std::string> CaptureOfOriginal(storage::ObjectStore& store,
                                              const storage::StoredObject& original) {
  std::string head(session::kMaxOriginalHead, '\0');
  ASSIGN_OR_RETURN(const std::size_t got, store.Read(original.key, 0, head));
  return session::CaptureOfHead(std::string_view(head).substr(0, got));
}

absl::StatusOr<std::string> CaptureOfTrace(storage::ObjectStore& store,
                                           const storage::StoredObject& trace) {
  constexpr std::size_t kUsualPlaneBytes = 8 << 10;
  std::string capture;
  for (const std::size_t most : {kUsualPlaneBytes, session::kMaxStrobePlaneBytes}) {
    std::string tail(static_cast<std::size_t>(std::min<std::uint64_t>(trace.bytes, most)), '\0');
    ASSIGN_OR_RETURN(const std::size_t got, store.Read(trace.key, trace.bytes - tail.size(), tail));
    tail.resize(got);
    capture = session::CaptureOfTail(tail);
    if (!capture.empty() || trace.bytes <= most) break;
  }
  return capture;
}

std::string CaptureOfClaim(std::string_view text) { return std::string(text); }

// The capture that the text object names; empty if it names none, or is gone.
absl::StatusOr<std::string> CaptureOfText(storage::ObjectStore& store, const std::string& key,
                                          std::string (*capture_of)(std::string_view)) {
  const absl::StatusOr<std::string> text = storage::GetText(store, key, kMaxManifestBytes);
  // An object that is too large (OutOfRange) cannot be ours.
  if (absl::IsNotFound(text.status()) || absl::IsOutOfRange(text.status())) return std::string();
  if (!text.ok()) return text.status();
  return capture_of(*text);
}

using CaptureOf = absl::StatusOr<std::string> (*)(storage::ObjectStore&,
                                                  const storage::StoredObject&);

// Returns those of the objects that the capture wrote.
absl::StatusOr<std::set<std::string>> WrittenBy(std::string_view capture_id,
                                                storage::ObjectStore& store,
                                                const std::vector<storage::StoredObject>& objects,
                                                CaptureOf capture_of) {
  Mutex mutex;
  std::set<std::string> ours;
  absl::Status status;
  ParallelFor(objects.size(), kReadsAtOnce, [&](std::size_t i) {
    const absl::StatusOr<std::string> capture = capture_of(store, objects[i]);
    MutexLock lock(&mutex);
    if (absl::IsNotFound(capture.status())) return;  // Deleted meanwhile.
    status.Update(capture.status());
    if (capture.ok() && *capture == capture_id) ours.insert(objects[i].key);
  });
  if (!status.ok()) return status;
  return ours;
}

bool IsDerivedFrom(std::string_view name, const std::set<std::string>& workers) {
  return std::any_of(kDerivedSuffixes.begin(), kDerivedSuffixes.end(), [&](std::string_view end) {
    return name.ends_with(end) &&
           workers.contains(std::string(name.substr(0, name.size() - end.size())));
  });
}

absl::StatusOr<Sorted> Sort(storage::ObjectStore& store, std::string_view run,
                            std::string_view capture_id) {
  ASSIGN_OR_RETURN(const std::vector<storage::StoredObject> objects,
                   storage::ListAll(store, storage::RunPrefix(run)));
  std::vector<storage::StoredObject> traces, originals;
  std::set<std::string> keys;
  for (const storage::StoredObject& object : objects) {
    if (storage::IsSpaceName(object.name())) traces.push_back(object);
    if (object.key.ends_with(session::kOriginalSuffix)) originals.push_back(object);
    keys.insert(object.key);
  }
  ASSIGN_OR_RETURN(const std::set<std::string> our_traces,
                   WrittenBy(capture_id, store, traces, CaptureOfTrace));
  ASSIGN_OR_RETURN(const std::set<std::string> our_originals,
                   WrittenBy(capture_id, store, originals, CaptureOfOriginal));
  std::set<std::string> our_texts;
  for (const auto& [key, capture_of] :
       {std::pair(storage::ManifestKey(run), &CaptureOfManifest),
        std::pair(storage::ReportKey(run), &CaptureOfReport),
        std::pair(storage::EvidenceKey(run), &CaptureOfReport),  // It has the same member.
        std::pair(storage::ClaimKey(run), &CaptureOfClaim)}) {
    if (!keys.contains(key)) continue;
    ASSIGN_OR_RETURN(const std::string capture, CaptureOfText(store, key, capture_of));
    if (capture == capture_id) our_texts.insert(key);
  }
  std::set<std::string> workers;
  for (const storage::StoredObject& trace : traces) {
    std::string_view worker = trace.name();
    worker.remove_suffix(storage::kTraceSuffix.size());
    if (our_traces.contains(trace.key)) workers.emplace(worker);
  }
  const bool alone =
      our_traces.size() == traces.size() &&
      our_texts.contains(storage::ManifestKey(run)) == keys.contains(storage::ManifestKey(run));
  const bool our_evidence =
      our_texts.contains(storage::EvidenceKey(run)) ||
      (our_texts.contains(storage::ManifestKey(run)) && !keys.contains(storage::EvidenceKey(run)));
  Sorted sorted;
  for (const storage::StoredObject& object : objects) {
    const std::string_view name = object.name();
    const bool is_ours =
        our_traces.contains(object.key) || our_originals.contains(object.key) ||
        our_texts.contains(object.key) || IsDerivedFrom(name, workers) ||
        (our_evidence && name.starts_with(storage::kEvidenceFolder)) ||
        (alone && !workers.empty() && (name.starts_with(kAllHosts) || name == kCacheVersion));
    (is_ours ? sorted.ours : sorted.foreign).push_back(object.key);
  }
  return sorted;
}

}  // namespace

std::string CaptureOfManifest(std::string_view text) {
  v1::Manifest manifest;
  return ReadJson(text, manifest) ? manifest.capture_id() : "";
}

std::string CaptureOfReport(std::string_view text) {
  const nlohmann::json report = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object()) return "";
  const auto found = report.find("captureId");
  return found != report.end() && found->is_string() ? found->get<std::string>() : "";
}

namespace {

// Creates the object. OK also if it exists with the same bytes; AlreadyExists if with others.
absl::Status CreateText(storage::ObjectStore& store, const std::string& key,
                        const std::string& text, std::string (*capture_of)(std::string_view)) {
  const std::array<std::string_view, 1> pieces = {text};
  const absl::Status put = store.Put(key, storage::MemoryBytes(pieces), {.create_only = true});
  if (!absl::IsAlreadyExists(put)) return put;
  // It may be ours: the store's answer may have been lost, or the operator restarted after it was
  // written.
  const absl::StatusOr<std::string> there = storage::GetText(store, key, kMaxManifestBytes);
  if (there.ok() && *there == text) return absl::OkStatus();
  // An object that is too large (OutOfRange) cannot be ours.
  if (!there.ok() && !absl::IsOutOfRange(there.status())) return there.status();
  const std::string other = there.ok() ? capture_of(*there) : "";
  const bool same_capture = !other.empty() && other == capture_of(text);
  return absl::AlreadyExistsError(StrCat(
      key, " already exists and ",
      same_capture
          ? std::string(
                "belongs to this capture, but an earlier operator wrote it with different content")
      : other.empty() ? std::string("was written by another tool")
                      : StrCat("belongs to capture ", other),
      "; it was left unchanged"));
}

}  // namespace

absl::Status PublishManifest(storage::ObjectStore& store, std::string_view run,
                             const std::string& manifest) {
  return CreateText(store, storage::ManifestKey(run), manifest, CaptureOfManifest);
}

absl::Status PublishReport(storage::ObjectStore& store, std::string_view run,
                           const std::string& report) {
  return CreateText(store, storage::ReportKey(run), report, CaptureOfReport);
}

absl::Status PublishEvidence(storage::ObjectStore& store, std::string_view run,
                             const std::string& evidence) {
  return CreateText(store, storage::EvidenceKey(run), evidence, CaptureOfReport);
}

absl::Status PutEvidenceFile(storage::ObjectStore& store, std::string_view run,
                             std::string_view worker, const v1::EvidenceFile& file) {
  const std::array<std::string_view, 1> pieces = {file.content()};
  const absl::Status put = store.Put(storage::EvidenceFileKey(run, worker, file.name()),
                                     storage::MemoryBytes(pieces), {.create_only = true});
  return absl::IsAlreadyExists(put) ? absl::OkStatus() : put;
}

absl::StatusOr<Reclaimed> ReclaimRun(storage::ObjectStore& store, std::string_view run,
                                     std::string_view capture_id) {
  // Traces of other tools carry no id and would all match an empty one.
  if (capture_id.empty()) return absl::InvalidArgumentError("capture_id is missing");
  const absl::StatusOr<std::string> claimed = storage::FindClaimedRun(store, run, capture_id);
  if (!claimed.ok() && !absl::IsNotFound(claimed.status())) return claimed.status();
  if (claimed.ok()) run = *claimed;
  ASSIGN_OR_RETURN(const Sorted sorted, Sort(store, run, capture_id));
  if (sorted.ours.empty() && !sorted.foreign.empty()) {
    return absl::PermissionDeniedError(StrCat("run ", run, " contains ", sorted.foreign.size(),
                                              " objects, none of them from capture ", capture_id,
                                              "; nothing was deleted"));
  }
  if (const absl::Status status = store.Delete(sorted.ours); !status.ok()) return status;
  return Reclaimed{sorted.ours.size(), sorted.foreign.size()};
}

}  // namespace strobe::service
