#include "tests/fuzz/targets.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "collector/store/catalog/entries_file.h"
#include "collector/trace/analysis/event_stats.h"
#include "collector/trace/analysis/hlo_module.h"
#include "collector/trace/analysis/steps.h"
#include "collector/trace/convert/align.h"
#include "collector/trace/convert/chrome_trace.h"
#include "collector/trace/convert/perfetto_trace.h"
#include "collector/trace/digest/compute_digest.h"
#include "collector/trace/digest/encode.h"
#include "collector/trace/index/build.h"
#include "collector/trace/kineto/trace_file.h"
#include "collector/trace/tally/memory_curve.h"
#include "collector/trace/tally/tally.h"
#include "collector/trace/xplane/summary.h"
#include "common/base/guard.h"
#include "common/base/hash.h"
#include "operator/admission/inject.h"
#include "operator/admission/review.h"
#include "tests/fakes/made_index.h"
#include "tests/fuzz/allocations.h"
#include "viewer/api/run_files.h"
#include "viewer/router.h"

namespace strobe::fuzz {
namespace {

absl::Status Swallow(std::string_view) { return absl::OkStatus(); }

convert::OpenTrace Trace(std::string_view bytes) {
  return {"worker", "", std::make_unique<const std::string>(bytes)};
}

class OneTrace final : public viewer::Library {
 public:
  explicit OneTrace(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible&, std::size_t) override {
    return std::vector<std::string>{"run"};
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string&) override {
    std::vector<convert::OpenTrace> traces;
    traces.push_back(Trace(bytes_));
    return traces;
  }
  std::string location() const override { return "here"; }

 private:
  const std::string bytes_;
};

std::string SmallTrace() {
  std::string trace;
  for (const char* name : {"/device:GPU:0", "/host:CPU"}) {
    xplane::PlaneBuilder plane(name);
    plane.BeginLine(1, "line", 0);
    for (int i = 0; i < 300; ++i) {
      plane.AddEvent(plane.EventId("event " + std::to_string(i % 7)), i * 1000, 900 + i % 5 * 300);
      plane.AddEventStat(plane.StatId("correlation_id"), static_cast<std::uint64_t>(i + 1));
    }
    trace += plane.Encode();
  }
  return trace;
}

// Returns a pod in which the input chooses places and replaces their values by unexpected ones.
nlohmann::json OddPod(std::string_view bytes) {
  using Json = nlohmann::json;
  static const Json kPod = Json::parse(R"({
      "metadata": {"name": "p", "labels": {"strobe.dev/inject": "true", "strobe.dev/injected": "x"},
                   "annotations": {"strobe.dev/containers": "a,b", "strobe.dev/status": "x",
                                   "strobe.dev/logdir-volume": "v:/var/strobe", "strobe.dev/python": "true",
                                   "strobe.dev/port": "9472", "strobe.dev/compat-port": "9472"}},
      "spec": {"volumes": [{"name": "v"}, {"name": "strobe", "emptyDir": {}}], "os": {"name": "linux"},
               "initContainers": [{"name": "strobe-sidecar", "ports": [{"name": "strobe"}],
                                   "volumeMounts": [{"name": "strobe"}]}],
               "containers": [{"name": "a", "env": [{"name": "STROBE_DIR", "value": "x"}],
                               "volumeMounts": [{"name": "strobe", "mountPath": "/x"}],
                               "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "1", "memory": "1"},
                                             "requests": {"cpu": "1"}}},
                              {"name": "b"}]}})");
  static const std::vector<Json> kOdd = {nullptr,
                                         1,
                                         -1.5,
                                         "",
                                         "strobe-sidecar",
                                         "strobe",
                                         "v:/var/lib/strobe/",
                                         "9012,9472",
                                         "false",
                                         Json::array(),
                                         Json::object(),
                                         {nullptr},
                                         {{"name", nullptr}},
                                         true};
  Json pod = kPod;
  for (std::size_t i = 0; i + 1 < bytes.size() && i < 12; i += 2) {
    std::vector<std::string> places;
    const auto collect = [&places](const auto& self, const Json& value,
                                   const std::string& at) -> void {
      places.push_back(at);
      if (value.is_object()) {
        for (const auto& [key, inner] : value.items())
          self(self, inner, at + "/" + (key.find('/') == std::string::npos ? key : "-odd"));
      } else if (value.is_array()) {
        for (std::size_t k = 0; k < value.size(); ++k)
          self(self, value[k], at + "/" + std::to_string(k));
      }
    };
    collect(collect, pod, "");
    const std::string& place = places[static_cast<unsigned char>(bytes[i]) % places.size()];
    if (place.find("-odd") != std::string::npos) continue;
    pod[Json::json_pointer(place)] = kOdd[static_cast<unsigned char>(bytes[i + 1]) % kOdd.size()];
  }
  return pod;
}

void Require(bool holds, const char* what, const nlohmann::json& pod) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", what, pod.dump().c_str());
  std::abort();
}

// The API server refuses duplicates in these lists, so that our container must not have any.
void RequireUniqueOnes(const nlohmann::json& pod) {
  for (const nlohmann::json& container : pod["spec"]["initContainers"]) {
    if (!container.is_object() || container.value("name", nlohmann::json()) != "strobe-sidecar" ||
        !container.contains("image"))
      continue;
    for (const auto& [list, field] :
         {std::pair("volumeMounts", "mountPath"), std::pair("ports", "containerPort"),
          std::pair("env", "name")}) {
      std::set<std::string> seen;
      for (const nlohmann::json& entry : container[list])
        Require(seen.insert(entry[field].dump()).second, "two of a kind in the sidecar", pod);
    }
  }
}

// Sums up a trace by an index, which need not be its own.
void SumUp(const index::Index& index, const xplane::Space& space, std::string_view trace) {
  const absl::StatusOr<xplane::Space> derived = xplane::Space::Read(index.derived());
  const xplane::Space nothing;
  const tally::Source source{.index = &index,
                             .space = &space,
                             .derived = derived.ok() ? &*derived : &nothing,
                             .trace = trace};
  tally::TallyTrace(source).status().IgnoreError();
  tally::ReadMemory(source).status().IgnoreError();
}

}  // namespace

bool Space(std::string_view bytes) {
  const Allocations allocations;
  const absl::StatusOr<xplane::TraceSummary> summary = xplane::Summarize(bytes);
  // Twice the free part and 4 more per byte, for a second copy of the names and the allocator's
  // rounding.
  const std::size_t most =
      2 * xplane::Space::kFree + (xplane::Space::kMaxPerByte + 4) * bytes.size();
  if (allocations.peak() > most) {
    std::fprintf(stderr, "%zu bytes took %zu bytes of memory\n", bytes.size(), allocations.peak());
    std::abort();
  }
  std::vector<convert::OpenTrace> traces;
  traces.push_back(Trace(bytes));
  const absl::StatusOr<convert::AlignedTraces> aligned = convert::AlignTraces(traces);
  if (!aligned.ok()) return false;
  const xplane::Space& space = aligned->workers[0].space;
  analysis::FindSteps(space).status().IgnoreError();
  for (const xplane::Plane& plane : space.planes)
    analysis::ComputeStats(plane).status().IgnoreError();
  const absl::StatusOr<strobe::digest::Digest> digest = digest::ComputeDigest(space, "worker");
  if (digest.ok() && !digest::DecodeDigest(digest::EncodeDigest(*digest)).ok()) std::abort();
  convert::WriteChromeTrace(aligned->workers, Swallow).IgnoreError();
  convert::WritePerfettoTrace(aligned->workers, Swallow).IgnoreError();
  index::BuildIndex(traces[0].bytes(), space, {}, Swallow).IgnoreError();
  if (xplane::Space::Read(bytes).ok()) {
    const index::MadeIndex made{std::string(bytes)};
    if (made.status.ok()) SumUp(made.index, made.space, made.trace);
  }
  return summary.ok() && summary->events > 0;
}

bool Digest(std::string_view bytes) {
  const absl::StatusOr<strobe::digest::Digest> digest = digest::DecodeDigest(bytes);
  if (!digest.ok()) return false;
  const absl::StatusOr<strobe::digest::Digest> again =
      digest::DecodeDigest(digest::EncodeDigest(*digest));
  if (!again.ok() || again->steps.size() != digest->steps.size()) std::abort();
  return !digest->steps.empty() || !digest->devices.empty();
}

bool TraceJson(std::string_view bytes) {
  const Allocations allocations;
  std::string_view left = bytes;
  // The first byte decides in which pieces the file comes.
  const std::size_t piece = bytes.empty() ? 1 : 1 + static_cast<unsigned char>(bytes[0]) * 7u % 200;
  kineto::ReadReport report;
  const absl::StatusOr<std::string> space = kineto::ReadTraceFile(
      [&](std::span<char> room) -> absl::StatusOr<std::size_t> {
        const std::size_t size = std::min({room.size(), left.size(), piece});
        std::memcpy(room.data(), left.data(), size);
        left.remove_prefix(size);
        return size;
      },
      report);
  // Inputs are small, so that the buffers that every file needs are most of it.
  const std::size_t most = (16u << 20) + 64 * bytes.size() + (space.ok() ? 8 * space->size() : 0);
  if (allocations.peak() > most) {
    std::fprintf(stderr, "%zu bytes took %zu bytes of memory\n", bytes.size(), allocations.peak());
    std::abort();
  }
  if (!space.ok()) return false;
  const absl::StatusOr<xplane::TraceSummary> summary = xplane::Summarize(*space);
  if (!summary.ok() || summary->events != report.spans) {
    std::fprintf(stderr, "%s; %llu events written\n", summary.status().ToString().c_str(),
                 static_cast<unsigned long long>(report.spans));
    std::abort();
  }
  const absl::StatusOr<xplane::Space> read = convert::ReadSpace(*space);
  if (!read.ok()) std::abort();
  for (const xplane::Plane& plane : read->planes) {
    if (!analysis::ComputeStats(plane).ok()) std::abort();
  }
  return report.spans > 0;
}

bool Index(std::string_view bytes) {
  std::vector<std::uint64_t> words((bytes.size() + 7) / 8);  // Aligns the bytes to 8.
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  const absl::StatusOr<index::Index> index =
      index::Index::Open({reinterpret_cast<const char*>(words.data()), bytes.size()});
  if (!index.ok()) return false;
  index::AskAll(*index);
  xplane::Space space;
  space.planes.resize(4);
  SumUp(*index, space, bytes);
  return !index->tracks().empty();
}

std::string IndexSeed(std::string_view trace) {
  if (!xplane::Space::Read(trace).ok()) return "";
  const index::MadeIndex made{std::string(trace)};
  return made.status.ok() ? std::string(made.view()) : "";
}

bool Hlo(std::string_view bytes) {
  const absl::StatusOr<analysis::HloModule> module = analysis::HloModule::Read(bytes);
  if (!module.ok()) return false;
  module->Root().status().IgnoreError();
  for (std::uint32_t c = 0; c < module->computations.size(); ++c) {
    const analysis::HloComputation& computation = module->computations[c];
    computation.Users();
    for (std::uint32_t i = 0; i < computation.instructions.size(); ++i) {
      analysis::HloText(*module, {c, i}, 1000);
      analysis::OriginOf(computation.instructions[i]);
    }
  }
  return !module->computations.empty();
}

bool Query(std::string_view bytes) {
  static OneTrace library(SmallTrace());
  static const viewer::RouterOptions options;
  static viewer::Router viewer(library, options);
  const std::size_t question = std::min(bytes.find('?'), bytes.size());
  http::Request request{.path = std::string(bytes.substr(0, question)), .host = "localhost"};
  if (question < bytes.size()) request.query = bytes.substr(question + 1);
  while (viewer.Answer({"/api/run", "", "localhost"}).body.find("\"loading\"") != std::string::npos)
    ;
  viewer.LoadOf(request, &catalog::kAllVisible);
  const bool answered = viewer.Answer(request).status == 200;
  // The viewer's own guard would hide them.
  if (!CaughtExceptions().empty()) std::abort();
  return answered;
}

bool Admission(std::string_view bytes) {
  using Json = nlohmann::json;
  static const admission::InjectionSettings kSettings{.image = "i", .enrollment = "o:1"};
  admission::ParseReview(std::string(bytes)).status().IgnoreError();
  Json pod = Json::parse(bytes, nullptr, false);
  if (pod.is_discarded()) pod = OddPod(bytes);
  const admission::Injection injection =
      admission::Inject(pod, kSettings, {.roots = "roots", .seed = "s"});
  admission::InjectionDamage(pod);
  if (!injection.skipped.empty()) {
    Require(injection.patch.empty(), "skipped, yet patched", pod);
    return false;
  }
  const Json patched = pod.patch(injection.patch);
  RequireUniqueOnes(patched);
  Require(admission::Inject(patched, kSettings, {.roots = "roots", .seed = "s"}).patch.empty(),
          "patched again", pod);
  for (const Json& step : Json::diff(pod, patched)) {
    const bool fills_null =
        step["op"] == "replace" && (pod[Json::json_pointer(step["path"])].is_null() ||
                                    step["path"].get<std::string>().ends_with("/restartPolicy"));
    Require(step["op"] == "add" || fills_null, "changed what was there", pod);
  }
  return !injection.patch.empty();
}

bool Runs(std::string_view bytes) {
  namespace list = catalog;
  const std::string text(bytes);
  const absl::StatusOr<list::ManifestFacts> facts = list::ReadManifestFacts(bytes);
  list::LogdirRuns runs{.logdir = "gs://a"};
  if (facts.ok())
    runs.entries.push_back(std::make_shared<list::RunEntry>(list::EntryOf(text, {}, *facts)));
  (void)viewer::ParseRange(text, 10);
  // As a file with the right digest, so that its lines are read.
  Sha256 digest;
  digest.Update(bytes);
  const absl::StatusOr<list::LogdirRuns> read =
      list::ReadEntries(text + digest.Hex() + "\n", "gs://a");
  if (read.ok())
    runs.entries.insert(runs.entries.end(), read->entries.begin(), read->entries.end());
  std::string written;
  (void)list::WriteEntries(runs, [&written](std::string_view piece) {
    written += piece;
    return absl::OkStatus();
  });
  const absl::StatusOr<list::LogdirRuns> back = list::ReadEntries(written, "gs://a");
  if (!back.ok() || back->entries.size() != runs.entries.size()) std::abort();
  const std::vector<list::LogdirRunsRef> all = {std::make_shared<list::LogdirRuns>(runs)};
  for (const std::size_t limit : {1u, 100u}) {
    (void)list::SearchRuns(all, {.text = text, .limit = limit}, list::kAllVisible);
    (void)list::SearchRuns(all, {.limit = limit, .after = text}, list::kAllVisible);
  }
  return !runs.entries.empty();
}

}  // namespace strobe::fuzz
