// Remembers when the last capture of each namespace ended. Requests can be deleted and the operator
// can restart, so the times are also stored in a ConfigMap of the operator's namespace. Safe for
// concurrent use.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"
#include "operator/kube/client.h"

namespace strobe::access {

class CaptureHistory {
 public:
  struct Options {
    // The ConfigMap must exist; it may be empty. Without a name, the times are kept in memory only.
    std::string ns{}, config_map{};
  };
  CaptureHistory(const Clock& clock, kube::Client& client, Options options)
      : clock_(clock), client_(client), options_(std::move(options)) {}

  // Records the end of a capture, unless a later end is known. With `keep`, stores it in the
  // ConfigMap together with the ends of the last `keep`. A failure to store is logged; the time
  // then stays in memory. Blocks.
  void NoteEnd(const std::string& ns, WallTime when, std::optional<Nanos> keep);
  // The end of the namespace's last capture; nothing if none is known. Reads the ConfigMap again if
  // the last read is too old; an error means that this failed. Blocks for at most `within`.
  absl::StatusOr<std::optional<WallTime>> LastEnd(const std::string& ns, Nanos within);
  // Forces a read of the ConfigMap before the next answer, because another replica may have written
  // it.
  void Reload();

 private:
  absl::Status Load(Nanos within);
  // Stores the ends unless those of `version` are stored already.
  absl::Status Store(std::uint64_t version, Nanos keep) ABSL_EXCLUSIVE_LOCKS_REQUIRED(writing_);
  std::string Path() const;

  const Clock& clock_;
  kube::Client& client_;
  const Options options_;
  Mutex writing_;  // Held during a write; acquired before mutex_.
  Mutex mutex_;
  std::map<std::string, WallTime> ends_ ABSL_GUARDED_BY(mutex_);
  std::optional<MonoTime> loaded_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t version_ ABSL_GUARDED_BY(mutex_) = 0;  // Grows with each end.
  std::uint64_t stored_ ABSL_GUARDED_BY(mutex_) = 0;   // The version that was stored last.
};

}  // namespace strobe::access
