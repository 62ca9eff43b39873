// Fuzzes a worker's answers in a whole capture and everything that is made of them: status, events
// and manifest. The capture must end, and the API server must accept each text.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "capture/answer_limits.h"
#include "capture/attempt.h"
#include "capture/attempt_result.h"
#include "common/text/safe_text.h"
#include "operator/kube/event_recorder.h"
#include "operator/objects/request.h"
#include "operator/request/request_status.h"
#include "tests/fakes/simulated_time.h"
#include "tests/fuzz/targets.h"

namespace strobe::fuzz {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// Returns the pieces of the input between marks in order, then the last one repeatedly.
class Pieces {
 public:
  explicit Pieces(std::string_view bytes) {
    constexpr std::string_view kMark = "\n--\n";
    for (std::size_t end = 0; end != std::string_view::npos && pieces_.size() < 8;) {
      end = bytes.find(kMark);
      pieces_.push_back(bytes.substr(0, end));
      bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + kMark.size());
    }
  }
  std::string_view Next() { return pieces_[std::min(next_++, pieces_.size() - 1)]; }

 private:
  std::vector<std::string_view> pieces_;
  std::size_t next_ = 0;
};

// Like GrpcWorker, returns the parsed and bounded answer. If the bytes cannot be parsed, returns an
// error with these bytes as its message.
template <typename Answer>
absl::StatusOr<Answer> Parsed(std::string_view bytes) {
  Answer answer;
  const int size = static_cast<int>(bytes.size());
  if (bytes.empty() || !answer.ParseFromArray(bytes.data(), size)) {
    const auto code =
        bytes.empty()
            ? absl::StatusCode::kUnavailable
            : static_cast<absl::StatusCode>(1 + static_cast<unsigned char>(bytes[0]) % 16);
    return capture::BoundError(absl::Status(code, std::string(bytes)));
  }
  capture::BoundAnswer(answer);
  return answer;
}

class Liar final : public capture::Worker {
 public:
  Liar(SimulatedTime& time, Pieces& pieces) : time_(time), pieces_(pieces) {}

  void Check(const std::string& capture_id, Nanos, Callback<capture::Preflight> done) override {
    absl::StatusOr<v1::DescribeResponse> answer = Parsed<v1::DescribeResponse>(pieces_.Next());
    time_.PostAfter(milliseconds(1), [answer, capture_id, done] {
      if (!answer.ok()) return done(answer.status());
      capture::Preflight preflight{.description = *answer,
                                   .clock = capture::ClockEstimate{.error = Nanos{1}}};
      // With another protocol version or capture, few inputs would get beyond preflight.
      preflight.description.set_protocol(1);
      if (preflight.description.has_report())
        preflight.description.mutable_report()->set_capture_id(capture_id);
      preflight.round_trip = milliseconds(1);
      done(preflight);
    });
  }
  void MeasureClock(Nanos, Callback<capture::ClockEstimate> done) override {
    const auto bytes = static_cast<std::int64_t>(pieces_.Next().size());
    const capture::ClockEstimate estimate{.offset = milliseconds(bytes - 100),
                                          .error = Nanos{bytes}};
    time_.PostAfter(milliseconds(1), [estimate, done] { done(estimate); });
  }
  void Arm(const v1::CapturePlan& plan, Nanos, Callback<v1::ArmResponse> done) override {
    plan_ = plan;
    Answer(std::move(done));
  }
  std::shared_ptr<void> Watch(const std::string& capture_id, std::function<void(v1::Report)> report,
                              std::function<void(absl::Status)> ended) override {
    const std::string_view bytes = pieces_.Next();
    const absl::StatusOr<v1::Report> answer = Parsed<v1::Report>(bytes);
    time_.PostAfter(milliseconds(1), [=, plan = plan_] {
      if (!answer.ok()) return ended(answer.status());
      v1::Report told = *answer;
      told.set_capture_id(capture_id);
      if (!bytes.empty() && bytes.size() % 2 == 0) *told.mutable_plan() = plan;
      report(told);
      ended(absl::UnavailableError(""));
    });
    return nullptr;
  }
  void Cancel(const v1::CancelRequest&, Nanos, Callback<v1::CancelResponse> done) override {
    Answer(std::move(done));
  }
  void ReadDigest(const v1::ReadDigestRequest&, Nanos,
                  Callback<v1::ReadDigestResponse> done) override {
    Answer(std::move(done));
  }
  void ReadEvidence(const v1::ReadEvidenceRequest&, Nanos,
                    Callback<v1::ReadEvidenceResponse> done) override {
    Answer(std::move(done));
  }
  void Publish(const v1::PublishRequest& request, Nanos,
               Callback<v1::PublishResponse> done) override {
    Require(nlohmann::json::accept(request.manifest()), "the manifest is no JSON");
    Answer(std::move(done));
  }
  void Reclaim(const v1::ReclaimRequest&, Nanos, Callback<v1::ReclaimResponse> done) override {
    Answer(std::move(done));
  }

 private:
  template <typename Response>
  void Answer(Callback<Response> done) {
    time_.PostAfter(milliseconds(1),
                    [answer = Parsed<Response>(pieces_.Next()), done] { done(answer); });
  }

  SimulatedTime& time_;
  Pieces& pieces_;
  v1::CapturePlan plan_;
};

class Liars final : public capture::WorkerConnector {
 public:
  Liars(SimulatedTime& time, Pieces& pieces) : time_(time), pieces_(pieces) {}
  std::shared_ptr<capture::Worker> Connect(const capture::Target&) override {
    return std::make_shared<Liar>(time_, pieces_);
  }

 private:
  SimulatedTime& time_;
  Pieces& pieces_;
};

// dump() throws on invalid UTF-8, which must have been replaced before.
void RequireText(const nlohmann::json& json, const char* what) {
  try {
    Require(nlohmann::json::accept(json.dump()), what);
  } catch (const nlohmann::json::exception& error) {
    std::fprintf(stderr, "%s: ", error.what());
    Require(false, what);
  }
}

void RequireTaken(const objects::ProfileRequest& request, const objects::RequestStatus& status) {
  nlohmann::json object = objects::StatusToJson(request, status);
  RequireText(object, "the status is no text");
  for (const nlohmann::json& condition : object["status"]["conditions"]) {
    const std::string reason = condition["reason"];
    Require(!reason.empty() && std::all_of(reason.begin(), reason.end(),
                                           [](char c) { return std::isalnum(c) || c == '_'; }),
            "the reason of a condition is no word");
    Require(condition["message"].get<std::string>().size() <= 32768, "a message is too long");
  }
  object["metadata"]["resourceVersion"] = "1";
  const absl::StatusOr<objects::ProfileRequest> read = objects::ParseRequest(object);
  Require(read.ok() && request::SameStatus(read->status, status),
          "the status is read as another one");
}

void RequireReported(const std::string& note) {
  kube::Event event{{"v1", "ProfileRequest", "team", "look", "uid"}, true, "Reason", "Act", note};
  const nlohmann::json object = kube::EventToJson(event, "look.1", "2026-11-21T08:30:00Z", "me");
  RequireText(object, "the event is no text");
  Require(object["note"].get<std::string>().size() <= 1024, "the note is too long");
}

objects::ProfileRequest SomeRequest() {
  objects::ProfileRequest request;
  request.ns = "team";
  request.name = "look";
  request.uid = request.capture.uid = "uid";
  request.capture.request = "team/look";
  request.capture.logdir = "file:///logs";
  request.capture.run = "run";
  return request;
}

}  // namespace

bool Answers(std::string_view bytes) {
  SimulatedTime time(WallTime{std::chrono::seconds(1'790'000'000)});
  Pieces pieces(bytes);
  Liars liars(time, pieces);
  const objects::ProfileRequest request = SomeRequest();
  std::vector<capture::Target> targets(2);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    targets[i].name = targets[i].pod = targets[i].file = "w" + std::to_string(i);
    targets[i].address = "10.0.0.1:9470";
  }
  const auto attempt = capture::Attempt::Start({time, time, liars, true}, request.capture, 1,
                                               std::move(targets), [] {});
  for (int i = 0; i < 3000 && attempt->progress().phase != capture::Phase::kDone; ++i) {
    if (i == 20)
      RequireTaken(request, request::ActiveStatus(request, 1, attempt->progress(), time.WallNow()));
    if (attempt->progress().wants_evidence) attempt->TellEvidence({{"w0", CutUtf8(bytes, 300)}});
    time.Advance(milliseconds(500));
  }
  const capture::AttemptProgress progress = attempt->progress();
  Require(progress.phase == capture::Phase::kDone, "the capture does not end");
  const capture::AttemptResult& result = *progress.result;
  Require(result.reason != "InternalError", "something threw");
  capture::RetryAfter(request.capture, result);
  RequireTaken(request, request::FinishedStatus(request, result, time.WallNow()));
  RequireTaken(request, request::RetryStatus(request, result, time.WallNow(), time.WallNow()));
  const std::string raw(bytes);
  RequireTaken(request, request::RefusedStatus(request, "Reason", raw, time.WallNow()));
  RequireTaken(request, request::PendingStatus(request, "Reason", raw, time.WallNow()));
  RequireReported(result.message + "; " + result.sync_message);
  RequireReported(raw);
  // Text may also come from a store or from the command line.
  capture::AttemptResult odd = result;
  odd.message = odd.manifest_error = raw;
  capture::Spec spec = request.capture;
  spec.request = raw;
  Require(capture::ManifestJson(capture::ComposeManifest(spec, odd)).ok(),
          "the manifest cannot be written");
  RequireTaken(request, request::FinishedStatus(request, odd, time.WallNow()));
  return result.succeeded;
}

}  // namespace strobe::fuzz
