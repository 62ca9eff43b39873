// Sums up the traces of the newest capture beside their upload, on a thread of low priority, and
// keeps the results for the operator. A trace that cannot be summed up has no result; this does
// not affect the capture. Safe for concurrent use.
#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "sidecar/capture/ports.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::session {

// Sums up one trace and encodes the result, as at most `max_bytes`.
absl::StatusOr<std::string> EncodedDigest(const TracePieces& trace, const std::string& worker,
                                          std::size_t max_bytes, const Cancellation& stop);

class TraceDigests {
 public:
  // The limits of one digest, which must fit into an answer of 256 KiB, and of all kept digests.
  static constexpr std::size_t kMaxBytes = 255 << 10, kMaxTotalBytes = 8 << 20;

  // What EncodedDigest is.
  using DigestFunction = std::function<absl::StatusOr<std::string>(
      const TracePieces&, const std::string&, std::size_t, const Cancellation&)>;

  explicit TraceDigests(DigestFunction digest = &EncodedDigest) : digest_(std::move(digest)) {}
  ~TraceDigests() { Join(); }
  TraceDigests(const TraceDigests&) = delete;
  TraceDigests& operator=(const TraceDigests&) = delete;

  // Begins with the traces of a capture, in the order of TraceReports(report), and forgets those of
  // the capture before. Called by one thread at a time, like Stop.
  void Begin(const v1::Report& report, const std::vector<TracePieces>& traces);
  // Ends what is being computed, so that it does not disturb a recording. Results stay. Does not
  // wait for it: it takes seconds where a trace of gigabytes is being read, and a recording must
  // begin in time.
  void Stop();
  // Waits at most `timeout` for the digest of a worker's trace. NotFound if there is no such trace,
  // Unavailable if it is still being computed, FailedPrecondition if it cannot be summed up.
  absl::StatusOr<std::string> Wait(std::string_view capture_id, std::string_view worker,
                                   Nanos timeout) const;

 private:
  struct Job {
    std::string worker{};
    TracePieces trace{};
  };
  void Join();
  void Run(std::vector<Job> jobs, const Cancellation& stop);
  void Set(const std::string& worker, absl::StatusOr<std::string> digest);

  const DigestFunction digest_;
  mutable Mutex mutex_;
  std::string capture_id_ ABSL_GUARDED_BY(mutex_);
  // The digest of each worker; none while it is computed.
  std::map<std::string, std::optional<absl::StatusOr<std::string>>, std::less<>> digests_
      ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Cancellation> stop_{};
  std::thread thread_{};
};

}  // namespace strobe::session
