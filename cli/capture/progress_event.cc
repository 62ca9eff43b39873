#include "cli/capture/progress_event.h"

#include <nlohmann/json.hpp>

#include "common/base/json_text.h"

namespace strobe::cli {

std::string ProgressEvent(const capture::AttemptProgress& progress, int attempt) {
  nlohmann::ordered_json event{{"attempt", attempt},
                               {"phase", std::string(capture::Name(progress.phase))},
                               {"workers", progress.matched},
                               {"armed", progress.armed},
                               {"ended", progress.finished}};
  if (!progress.waits_for.empty()) event["waitsFor"] = progress.waits_for;
  return JsonText(event);
}

std::string RetryEvent(int attempt, const std::string& message) {
  return JsonText(
      nlohmann::ordered_json{{"attempt", attempt}, {"phase", "retry"}, {"message", message}});
}

}  // namespace strobe::cli
