// Where the viewer's runs come from.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/convert/align.h"

namespace strobe::viewer {

class Library {
 public:
  virtual ~Library() = default;
  // Names, the one to show first at the front. Called from several threads.
  virtual absl::StatusOr<std::vector<std::string>> Runs() = 0;
  virtual absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string& run) = 0;
  // What the page says it shows: a logdir or a file.
  virtual std::string place() const = 0;
};

}  // namespace strobe::viewer
