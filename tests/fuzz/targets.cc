#include "tests/fuzz/targets.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "collector/analysis/event_stats.h"
#include "collector/analysis/steps.h"
#include "collector/convert/align.h"
#include "collector/convert/chrome_trace.h"
#include "collector/convert/perfetto_trace.h"
#include "collector/index/build.h"
#include "collector/viewer/viewer.h"
#include "collector/xplane/summary.h"
#include "tests/fakes/made_index.h"

namespace strobe::fuzz {
namespace {

absl::Status Swallow(std::string_view) { return absl::OkStatus(); }

convert::OpenTrace Trace(std::string_view bytes) {
  return {"worker", "", std::make_unique<const std::string>(bytes)};
}

class OneTrace final : public viewer::Library {
 public:
  explicit OneTrace(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::StatusOr<std::vector<std::string>> Runs() override {
    return std::vector<std::string>{"run"};
  }
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string&) override {
    std::vector<convert::OpenTrace> traces;
    traces.push_back(Trace(bytes_));
    return traces;
  }
  std::string place() const override { return "here"; }

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

}  // namespace

void Space(std::string_view bytes) {
  xplane::Summarize(bytes).status().IgnoreError();
  std::vector<convert::OpenTrace> traces;
  traces.push_back(Trace(bytes));
  const absl::StatusOr<convert::AlignedTraces> aligned = convert::AlignTraces(traces);
  if (!aligned.ok()) return;
  const xplane::Space& space = aligned->workers[0].space;
  FindSteps(space).status().IgnoreError();
  for (const xplane::Plane& plane : space.planes) ComputeStats(plane).status().IgnoreError();
  convert::WriteChromeTrace(aligned->workers, Swallow).IgnoreError();
  convert::WritePerfettoTrace(aligned->workers, Swallow).IgnoreError();
  index::BuildIndex(traces[0].bytes(), space, {}, Swallow).IgnoreError();
}

void Index(std::string_view bytes) {
  std::vector<std::uint64_t> words((bytes.size() + 7) / 8);  // For their alignment.
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  const absl::StatusOr<index::Index> index =
      index::Index::Open({reinterpret_cast<const char*>(words.data()), bytes.size()});
  if (index.ok()) index::AskAll(*index);
}

void Query(std::string_view bytes) {
  static OneTrace library(SmallTrace());
  static viewer::Viewer viewer(library, {});
  const std::size_t question = std::min(bytes.find('?'), bytes.size());
  Request request{.path = std::string(bytes.substr(0, question)), .host = "localhost"};
  if (question < bytes.size()) request.query = bytes.substr(question + 1);
  while (viewer.Answer({"/api/run", "", "localhost"}).body.find("\"loading\"") != std::string::npos)
    ;
  viewer.Answer(request);
}

}  // namespace strobe::fuzz
