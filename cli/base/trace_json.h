// Opens trace files in Chrome's JSON format as traces.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "collector/trace/convert/align.h"
#include "collector/trace/xplane/file_kind.h"
#include "common/base/cancellation.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/fair/byte_shares.h"

namespace strobe::cli {

// Bounds the conversions that a server does for people who do not pay for them. A converted trace
// stays in memory while its run is open.
class JsonConversions {
 public:
  struct Limits {
    // What the traces of one run, and of all that are open, may take. While a file is read, half
    // of its JSON counts.
    std::uint64_t run_bytes = std::uint64_t{3} << 29, all_bytes = std::uint64_t{2} << 30;
    int at_once = 2;
    Nanos deadline = std::chrono::minutes(3);  // For the traces of a run, with what they wait.
  };

  JsonConversions(const Limits& limits, std::shared_ptr<const Clock> clock);

  // Converts the traces of one run.
  class Run {
   public:
    // `stop` may be null, or outlives it.
    Run(std::shared_ptr<JsonConversions> all, const Cancellation* stop);
    // Does what ReadTraceJson does. InvalidArgument if the run's traces take too much or too long,
    // ResourceExhausted if there is no room for them beside those of other runs.
    absl::StatusOr<convert::OpenTrace> Convert(const std::string& name, std::string_view bytes);

   private:
    absl::Status CheckTime() const;
    // Makes the holding hold that many bytes.
    absl::Status Charge(std::uint64_t bytes, fair::ByteShares::Holding& held) const;

    const std::shared_ptr<JsonConversions> all_;
    const Cancellation* const stop_;
    const MonoTime deadline_;
    std::uint64_t bytes_ = 0;  // What its traces hold.
  };

 private:
  const Limits limits_;
  const std::shared_ptr<const Clock> clock_;
  const std::shared_ptr<fair::ByteShares> shares_;
  Mutex mutex_;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Returns a file's name without its folder and endings: "rank0" for "rank0.pt.trace.json.gz".
std::string WorkerOfTraceJson(std::string_view file);

// The first bytes of a file, of which these are the first ones, without its compression by gzip.
std::string PlainHead(std::string_view raw, std::size_t most = xplane::kHeadBytes);

// Converts the file at `path`. What could not be read is told on stderr. With `cache`, a folder
// or empty, the result is kept there, and is only opened the next time, unless something was left
// out of it.
absl::StatusOr<convert::OpenTrace> OpenTraceJson(const std::string& path, const std::string& cache);
// Converts the bytes of a file in a store. `name` is for messages.
absl::StatusOr<convert::OpenTrace> ReadTraceJson(const std::string& name, std::string_view bytes);

}  // namespace strobe::cli
