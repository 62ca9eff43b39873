// Where the viewer's runs come from: a port that the `strobe` command implements.
#pragma once
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/convert/align.h"

namespace strobe::viewer {

class Library {
 public:
  virtual ~Library() = default;
  // Names of the runs; the page opens the first one. All methods are called from several threads.
  virtual absl::StatusOr<std::vector<std::string>> Runs() = 0;
  // False if Runs never lists this name. Tells it without I/O, so that the time of an answer does
  // not tell what others have.
  virtual bool MayHold(const std::string& /*run*/) const { return true; }
  // Opens the traces of all workers.
  virtual absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string& run) = 0;
  // The logdir or file that is shown, for the page's title and for messages.
  virtual std::string place() const = 0;
};

}  // namespace strobe::viewer
