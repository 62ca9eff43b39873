// When the last capture of each namespace ended. Requests can be deleted and operators restarted,
// so it is kept in a ConfigMap of the operator's namespace as well. Safe for concurrent use.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "operator/kube/client.h"

namespace strobe::kube {

class CaptureHistory {
 public:
  struct Options {
    std::string space{}, config_map{};  // There already, maybe empty. No name: in memory alone.
  };
  CaptureHistory(const Clock& clock, Client& client, Options options)
      : clock_(clock), client_(client), options_(std::move(options)) {}

  // The capture may have ended earlier than one that is known. With `keep` it is written down,
  // together with what is younger than that; what cannot be written is logged and stays in memory.
  // Blocking.
  void Ended(const std::string& space, WallTime when, std::optional<Nanos> keep);
  // Nothing when none is known. Reads the ConfigMap again now and then; an error means that it
  // could not be read. Blocking, for so long at most.
  absl::StatusOr<std::optional<WallTime>> LastEnd(const std::string& space, Nanos within);
  // What another operator wrote is read before the next answer.
  void Reload();

 private:
  absl::Status Load(Nanos within);
  std::string Path() const;

  const Clock& clock_;
  Client& client_;
  const Options options_;
  Mutex mutex_;
  std::map<std::string, WallTime> ends_ ABSL_GUARDED_BY(mutex_);
  std::optional<MonoTime> loaded_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::kube
