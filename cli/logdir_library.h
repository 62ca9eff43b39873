// The runs of logdirs, as the viewer's libraries.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/open_place.h"
#include "cli/open_traces.h"
#include "viewer/library.h"

namespace strobe {

// All runs of a logdir. The first one is the run that was named, or else the newest.
class LogdirRuns final : public viewer::Library {
 public:
  LogdirRuns(OpenPlace open, std::string storage_config, TraceReading reading)
      : open_(std::move(open)),
        storage_config_(std::move(storage_config)),
        reading_(std::move(reading)) {}

  absl::StatusOr<std::vector<std::string>> Runs() override;
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string& run) override;
  std::string place() const override { return open_.place.logdir.url(); }

 private:
  // Appends the options of the logdir's URL to the URL of one of its runs.
  std::string WithOptions(std::string url) const;

  const OpenPlace open_;
  const std::string storage_config_;
  const TraceReading reading_;
};

// A library with the name that stands before the names of its runs.
struct NamedLibrary {
  std::string name{};
  std::shared_ptr<viewer::Library> library{};
};

// The runs of some libraries as "NAME/RUN", the newest first. A library that cannot be listed is
// left out and logged, unless none can be.
class JoinedLibraries final : public viewer::Library {
 public:
  explicit JoinedLibraries(std::vector<NamedLibrary> parts) : parts_(std::move(parts)) {}

  absl::StatusOr<std::vector<std::string>> Runs() override;
  absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string& run) override;
  bool MayHold(const std::string& run) const override { return PartOf(run) != nullptr; }
  std::string place() const override;

 private:
  const NamedLibrary* PartOf(const std::string& run) const;  // Null if there is none.

  const std::vector<NamedLibrary> parts_;
};

}  // namespace strobe
