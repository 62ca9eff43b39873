#include "cli/stall/sidecar_evidence.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "capture/answer_limits.h"
#include "capture/attempt_evidence.h"
#include "capture/stall_report.h"
#include "capture/worker/grpc_worker.h"
#include "cli/capture/addresses.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

// All are asked for what RAS says.
constexpr Nanos kEvidenceTimeout = capture::AttemptEvidence::kRasTimeout;

// Callbacks share it, because they may come after the command has given up.
struct SidecarAnswers {
  Mutex mutex;
  std::size_t missing ABSL_GUARDED_BY(mutex) = 0;
  std::vector<capture::WorkerEvidence> workers ABSL_GUARDED_BY(mutex);
};

}  // namespace

absl::StatusOr<FoundEvidence> ReadEvidenceOfWorkers(const std::string& workers) {
  ASSIGN_OR_RETURN(const std::vector<capture::Target> targets, ParseWorkers(workers));
  const SystemClock clock;
  capture::GrpcWorkerConnector connector(clock, capture::PlaintextCredentials);
  const auto answers = std::make_shared<SidecarAnswers>();
  {
    MutexLock lock(&answers->mutex);
    answers->missing = targets.size();
    for (const capture::Target& target : targets) {
      capture::WorkerEvidence& worker = answers->workers.emplace_back();
      worker.name = target.name;
      worker.address = target.address;
      worker.rank = target.rank;
      worker.missing = "no answer";
    }
  }
  std::vector<std::shared_ptr<capture::Worker>> asked;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    asked.push_back(connector.Connect(targets[i]));
    v1::ReadEvidenceRequest request;
    request.set_max_bytes(capture::kMaxEvidenceBytes);
    asked.back()->ReadEvidence(request, kEvidenceTimeout,
                               [answers, i](absl::StatusOr<v1::ReadEvidenceResponse> answer) {
                                 MutexLock lock(&answers->mutex);
                                 capture::TakeAnswer(std::move(answer), answers->workers[i]);
                                 --answers->missing;
                               });
  }
  capture::JobEvidenceOrder order;
  {
    MutexLock lock(&answers->mutex);
    const auto all = [&answers]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(answers->mutex) {
      return answers->missing == 0;
    };
    (void)answers->mutex.AwaitFor(kEvidenceTimeout + std::chrono::seconds(1), all);
    order.workers = answers->workers;
  }
  FoundEvidence found;
  found.evidence = capture::JoinEvidence(order);
  std::size_t silent = 0;
  for (const capture::WorkerEvidence& worker : order.workers) {
    silent += worker.missing.empty() ? 0 : 1;
    if (!worker.missing.empty())
      found.notes.push_back(StrCat("nothing came from ", worker.name, ": ", worker.missing));
    for (const std::string& note : worker.notes)
      found.notes.push_back(StrCat(worker.name, ": ", note));
  }
  if (silent == order.workers.size())
    return absl::UnavailableError(found.notes.empty() ? std::string("no sidecar answered")
                                                      : found.notes.front());
  return found;
}

}  // namespace strobe::cli
