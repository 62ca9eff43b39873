// Which namespaces an asker may see, asked of the API server and remembered for a short time.
#pragma once
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "viewer/service/asker.h"

namespace strobe::viewer {

// Answers from the authority itself. Called from several threads at once.
class AccessJudge {
 public:
  virtual ~AccessJudge() = default;
  // Whether the asker may read the namespace's runs. An error means that the answer is not known.
  virtual absl::StatusOr<bool> MaySee(const Asker& asker, const std::string& ns, Nanos within) = 0;
};

struct AccessOptions {
  Nanos remember = std::chrono::seconds(30);    // From when the question was asked.
  Nanos after_error = std::chrono::seconds(1);  // How long a failed question is not repeated.
  Nanos deadline = std::chrono::seconds(5);     // For all questions of one request together.
  std::size_t max_answers = 20'000;
  std::size_t concurrency = 4;  // Questions of one request that are asked at the same time.
};

struct AccessCounts {
  std::uint64_t allowed = 0, denied = 0, failed = 0;  // Questions by their answer.
  std::uint64_t forgotten = 0;                        // Answers dropped to stay below the bound.
};

// Safe for concurrent use. The same question is never asked twice at the same time: others wait for
// its answer.
class Access {
 public:
  // The clock and the judge must outlive it.
  Access(const Clock& clock, AccessJudge& judge, AccessOptions options)
      : clock_(clock), judge_(judge), options_(options) {}

  // For each namespace, whether the asker may see it. Unavailable if one answer is not known in
  // time, so that an asker never gets a part of the runs as if it were all.
  absl::StatusOr<std::vector<bool>> MaySee(const Asker& asker,
                                           const std::vector<std::string>& namespaces);
  // What MaySee would answer at once; none if it would ask, wait or fail.
  std::optional<std::vector<bool>> Remembered(const Asker& asker,
                                              const std::vector<std::string>& namespaces);
  // True if MaySee would have to ask or to wait.
  bool MustAsk(const Asker& asker, const std::vector<std::string>& namespaces);
  AccessCounts counts();

 private:
  struct Answer {
    absl::StatusOr<bool> allowed = absl::UnknownError("not asked");
    MonoTime until{};  // The end of its life.
    bool asking = true;
    std::list<std::string>::iterator age{};
  };

  absl::StatusOr<bool> MaySeeOne(const Asker& asker, const std::string& ns, const std::string& key,
                                 MonoTime deadline);
  bool MustAskAs(const std::string& digest, const std::vector<std::string>& namespaces);
  // The live or awaited answer; null if the question must be asked.
  Answer* FindAnswer(const std::string& key, MonoTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<bool> Ask(const Asker& asker, const std::string& ns, const std::string& key,
                           MonoTime deadline);

  const Clock& clock_;
  AccessJudge& judge_;
  const AccessOptions options_;
  Mutex mutex_;
  std::unordered_map<std::string, Answer> answers_ ABSL_GUARDED_BY(mutex_);
  std::list<std::string> ages_ ABSL_GUARDED_BY(mutex_);  // Keys, the oldest answer first.
  AccessCounts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::viewer
