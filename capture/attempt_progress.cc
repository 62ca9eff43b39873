#include "capture/attempt_progress.h"

namespace strobe {

std::string_view Name(Phase phase) {
  switch (phase) {
    case Phase::kPreflight:
      return "preflight";
    case Phase::kArming:
      return "arm";
    case Phase::kDelay:
      return "delay";
    case Phase::kRecording:
      return "record";
    case Phase::kCollecting:
      return "collect";
    case Phase::kPublishing:
      return "publish";
    case Phase::kDone:
      return "done";
  }
  return "";
}

}  // namespace strobe
