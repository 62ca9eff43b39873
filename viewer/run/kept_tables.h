// The tables of a run, which are made when they are first asked for.
#pragma once
#include <cstddef>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace strobe::viewer {

struct KeptTables {
  // Answers that are kept; with more, all are made anew. One takes a megabyte at most.
  static constexpr std::size_t kMaxKept = 32;

  Mutex mutex{};
  // Answers as JSON, by table and worker.
  std::map<std::string, std::string> answers ABSL_GUARDED_BY(mutex){};
};

}  // namespace strobe::viewer
