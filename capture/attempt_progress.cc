#include "capture/attempt_progress.h"

#include "common/base/enum_names.h"

namespace strobe::capture {

std::string_view Name(Phase phase) {
  static constexpr EnumNames<Phase, 7> kNames({{Phase::kPreflight, "preflight"},
                                               {Phase::kArming, "arm"},
                                               {Phase::kDelay, "delay"},
                                               {Phase::kRecording, "record"},
                                               {Phase::kCollecting, "collect"},
                                               {Phase::kPublishing, "publish"},
                                               {Phase::kDone, "done"}});
  return kNames.Of(phase);
}

}  // namespace strobe::capture
