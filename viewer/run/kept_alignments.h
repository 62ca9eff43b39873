// A run whose workers are moved against one another, as it was asked for.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace strobe::viewer {

struct LoadedRun;

struct KeptAlignments {
  // With more, all are made anew. They share the traces of the run, and are small beside them.
  static constexpr std::size_t kMaxKept = 8;

  Mutex mutex{};
  std::map<std::string, std::shared_ptr<const LoadedRun>> runs ABSL_GUARDED_BY(mutex){};
};

}  // namespace strobe::viewer
