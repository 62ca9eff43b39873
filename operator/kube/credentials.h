// The operator's identity at the API server, from a kubeconfig or from the pod's service account.
// Files are read again at run time, because tokens and certificates rotate.
#pragma once
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace strobe::kube {

// A value from the configuration itself or from a file. At most one is set.
struct FileOrData {
  std::string file{}, data{};
  bool empty() const { return file.empty() && data.empty(); }
  absl::StatusOr<std::string> Read() const;
};

struct Credentials {
  // "https://host:port"; "http://host:port" only without any secret.
  std::string server{};
  FileOrData ca{}, certificate{}, key{}, token{};
  std::string ns{};  // The namespace of the context or the pod.
};

// Reads the current context of a kubeconfig file. Errors name the file and the field.
absl::StatusOr<Credentials> LoadKubeconfig(const std::string& path);
// Uses the service account that Kubernetes mounts into every pod.
absl::StatusOr<Credentials> LoadInCluster();
// Tries, in this order: `path` if it is not empty, $KUBECONFIG, the service account,
// ~/.kube/config.
absl::StatusOr<Credentials> FindCredentials(const std::string& path);

// Provides the bearer token and reads it again after a minute. Keeps the last token while the file
// cannot be read. Safe for concurrent use.
class TokenSource {
 public:
  TokenSource(const Clock& clock, FileOrData token) : clock_(clock), source_(std::move(token)) {}
  absl::StatusOr<std::string> Current();  // Empty if no token is configured.
  // Reports that the server refused the token, so the next call reads the file again.
  void OnRefused();

 private:
  const Clock& clock_;
  const FileOrData source_;
  Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
  MonoTime read_at_ ABSL_GUARDED_BY(mutex_){};
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strobe::kube
