// A worker of a loaded run, as the tally reads it.
#pragma once
#include <functional>

#include "collector/trace/tally/tally.h"
#include "viewer/run/loaded_run.h"

namespace strobe::viewer {

// The worker must outlive the result.
inline tally::TallySource TallySourceOf(const Worker& worker,
                                        const std::function<bool()>& is_gone = nullptr) {
  return {.index = &worker.index(),
          .space = &worker.files->space,
          .derived = &worker.files->derived,
          .trace = worker.files->trace.bytes(),
          .is_gone = is_gone};
}

}  // namespace strobe::viewer
