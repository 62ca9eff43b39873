// Who we are to the API server, from a kubeconfig or from the pod's service account. Files are read
// again while running, because tokens and certificates rotate.
#pragma once
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe::kube {

// A value that stands in the configuration itself or in a file; at most one is set.
struct FileOrData {
  std::string file{}, data{};
  bool empty() const { return file.empty() && data.empty(); }
  absl::StatusOr<std::string> Read() const;
};

struct Credentials {
  std::string server{};  // "https://host:port", or http:// without any secret.
  FileOrData ca{}, certificate{}, key{}, token{};
  std::string space{};  // The namespace of the context or the pod.
};

// The current context of a kubeconfig file. Errors name the file and the field.
absl::StatusOr<Credentials> LoadKubeconfig(const std::string& path);
// From the service account that Kubernetes mounts into every pod.
absl::StatusOr<Credentials> LoadInCluster();
// $KUBECONFIG, else in-cluster, else ~/.kube/config; `path` comes before all when given.
absl::StatusOr<Credentials> FindCredentials(const std::string& path);

// The bearer token, re-read when older than a minute. Keeps the last one when the file cannot be
// read for a while. Safe for concurrent use.
class TokenSource {
 public:
  TokenSource(const Clock& clock, FileOrData token) : clock_(clock), source_(std::move(token)) {}
  absl::StatusOr<std::string> Current();  // Empty when there is no token at all.
  // The server did not take it: the file may have a newer one already.
  void Doubt();

 private:
  const Clock& clock_;
  const FileOrData source_;
  Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  MonoTime read_at_ ABSL_GUARDED_BY(mutex_){};
  bool doubted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strobe::kube
