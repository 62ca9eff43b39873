// A directory of bounded size that keeps traces until the store has them, with a journal that lets
// a restarted sidecar continue. README.md lists the files.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "collector/store/byte_source.h"
#include "collector/store/object_store.h"
#include "collector/store/upload.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "strobe/v1/worker.pb.h"

namespace strobe::spool {

// A trace of a capture, with the report that has its size and checksum.
struct SpooledTrace {
  std::string id{};  // The name of its files: the capture's id, or "<capture>@<local rank>".
  const v1::Report* report = nullptr;
};
// The capture's traces, in the order of session::TraceReports. `report` must outlive them.
std::vector<SpooledTrace> TracesOf(const v1::Report& report);

// Safe for concurrent use.
class Spool {
 public:
  // Opens the directory and creates it if needed. `capacity` is the limit on traces in bytes.
  // FailedPrecondition if another sidecar uses it.
  static absl::StatusOr<std::unique_ptr<Spool>> Open(const std::string& directory,
                                                     std::uint64_t capacity);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // The reports that the directory had when the spool was opened, oldest first.
  std::vector<v1::Report> recovered() const;

  // The number of bytes that can be added, limited by the capacity and by the disk.
  std::uint64_t free_bytes() const;
  std::uint64_t used_bytes() const;
  std::size_t traces() const;
  // When the oldest trace was written; nothing when the spool is empty.
  std::optional<WallTime> oldest() const;

  // Stores a trace durably; SaveReport must follow, because a trace without a report is removed at
  // the next start. ResourceExhausted if there is not enough space.
  absl::Status Add(const std::string& trace_id, std::span<const std::string_view> pieces);
  absl::Status SaveReport(const v1::Report& report);
  bool HasTrace(const std::string& trace_id) const;
  std::string TracePath(const std::string& trace_id) const;
  // Where a file may be made that is uploaded at once. The next start removes it if it is left.
  std::string ScratchPath(const std::string& capture_id) const;
  void RemoveTrace(const std::string& trace_id);

  absl::Status SaveUpload(const std::string& trace_id, const storage::UploadState& state);
  storage::UploadState LoadUpload(const std::string& trace_id) const;

 private:
  Spool(std::string directory, int lock, std::uint64_t capacity);
  absl::Status Recover();
  std::string PathOf(std::string_view id, std::string_view suffix) const;
  void ForgetOldReports() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string directory_;
  const int lock_;
  const std::uint64_t capacity_;
  mutable Mutex mutex_;
  struct StoredTrace {
    std::uint64_t bytes = 0;
    WallTime since{};  // When its file was written, which a restarted sidecar knows too.
  };
  std::map<std::string, StoredTrace> traces_ ABSL_GUARDED_BY(mutex_);  // By trace id.
  std::vector<std::string> reports_ ABSL_GUARDED_BY(mutex_);           // Capture ids, oldest first.
  std::vector<v1::Report> recovered_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::spool
