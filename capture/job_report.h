// What the traces of a capture say together about its job, and the port to what makes the report.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capture/ports.h"
#include "common/base/clock.h"

namespace strobe {

struct JobReport {
  std::string headline{};  // One human-readable line; empty = there is no report.
  std::string json{};      // The content of report.json.
  // For metrics; none = not known. See collector/trace/report/run_report.h.
  std::optional<double> step_seconds{}, straggler_seconds{}, exposed_communication{};
  std::string url{};  // Empty when it could not be written.
};

// One worker whose trace the report is to take into account.
struct ReportedWorker {
  std::string name{};                 // Human-readable: the name of its trace's file.
  std::shared_ptr<Worker> sidecar{};  // Null: it has no trace.
  std::string trace{};                // The trace's name at its sidecar.
  std::string missing{};              // Why it has no trace.
  int rank = -1;                      // -1 = not known.
  std::optional<Nanos> error{};       // Its clock's error; none = not measured.
  // The clock's offset as known now, minus the offset in its plan, which its digest contains.
  Nanos clock_correction{};
};

struct ReportOrder {
  std::string capture_id{}, run{};
  std::vector<ReportedWorker> workers{};
  Nanos patience{};  // Workers that have not answered by then are missing from the report.
};

class CaptureReporter {
 public:
  virtual ~CaptureReporter() = default;
  // Returns at once. `done` is called at most once, from any thread; never if the reporter ends
  // first.
  virtual void Make(ReportOrder order, std::function<void(JobReport)> done) = 0;
};

}  // namespace strobe
