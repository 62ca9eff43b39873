// The last part of a capture attempt: has the report made, composes the manifest, and has one
// worker write both into the run, because the operator holds no storage identity. Without a report
// the capture ends as it would with one. If no trace has an event and another attempt follows, the
// worker deletes the run instead, so that nobody finds empty runs beside the good one. Threads: as
// AttemptState.
#pragma once
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/attempt_state.h"
#include "capture/owned_tasks.h"

namespace strobe::capture {

class AttemptPublishing {
 public:
  // How long the report waits for the workers' digests, and the attempt for the report.
  static constexpr Nanos kDigestPatience = std::chrono::seconds(20);
  static constexpr Nanos kReportPatience = std::chrono::seconds(25);

  // `state` and `tasks` must outlive it, as must `reporter` if it is not null. `done` is called
  // once; result.manifest_url or result.manifest_error says how it went.
  AttemptPublishing(AttemptState& state, const OwnedTasks& tasks, Reporter* reporter,
                    std::function<void()> done);

  // Needs the concluded result.
  void Begin();

 private:
  ReportOrder OrderOf() const;
  void OnReport(JobReport report);
  void PublishManifest();
  void Publish();
  void OnPublished(const absl::StatusOr<v1::PublishResponse>& answer);
  void Remove();
  Worker* NextWorker();

  AttemptState& state_;
  const OwnedTasks& tasks_;
  Reporter* const reporter_;
  const std::function<void()> done_;
  bool waits_for_report_ = false;
  v1::PublishRequest request_{};
  std::vector<std::size_t> candidates_{};  // Members that are still to be asked, the best last.
  MonoTime give_up_{};
};

}  // namespace strobe::capture
