#include "collector/store/upload.h"

#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "common/base/hash.h"
#include "common/base/mutex.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::storage {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
// All stores accept requests of this size, and a retry is not too expensive.
constexpr std::uint64_t kOneRequest = 8 * kMiB;
constexpr std::uint64_t kMinPart = 8 * kMiB;
constexpr std::uint64_t kMaxParts = 9'000;         // S3 and GCS allow 10,000.
constexpr std::uint64_t kMaxInFlight = 32 * kMiB;  // Limits the memory for any object size.
constexpr int kMaxConcurrent = 4;

template <typename ReadSome>
absl::StatusOr<std::string> HashWith(const ReadSome& read) {
  Sha256 hash;
  std::vector<char> buffer(4 * kMiB);
  for (std::uint64_t done = 0;;) {
    ASSIGN_OR_RETURN(const std::size_t got, read(done, std::span(buffer)));
    hash.Update({buffer.data(), got});
    done += got;
    if (got < buffer.size()) return hash.Hex();
  }
}

// Whether the object at the key has the expected bytes.
absl::StatusOr<bool> IsStored(ObjectStore& store, std::string_view key, std::uint64_t bytes,
                              const std::string& sha256) {
  ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(key));
  std::string stored = info.sha256;
  // Not every store keeps the checksum; without it, the object is read.
  if (info.bytes == bytes && stored.empty()) {
    ASSIGN_OR_RETURN(stored, HashObject(store, key));
  }
  return info.bytes == bytes && stored == sha256;
}

// Judges the store's answer that there is an object at the key, or no upload: OK if the object is
// what was to be uploaded.
absl::Status CheckStored(ObjectStore& store, std::string_view key, std::uint64_t bytes,
                         const UploadOptions& options, const absl::Status& answer) {
  const absl::StatusOr<bool> same = IsStored(store, key, bytes, options.sha256);
  if (same.ok() && *same) return absl::OkStatus();
  if (same.ok()) {
    return absl::AlreadyExistsError(
        StrCat(key, " exists already with different content; nothing was overwritten"));
  }
  // The existing entry may not be an object.
  if (absl::IsNotFound(same.status())) return answer;
  if (!absl::IsPermissionDenied(same.status())) return same.status();
  if (!absl::IsAlreadyExists(answer)) return answer;
  if (options.key_is_own) return absl::OkStatus();
  return absl::AlreadyExistsError(
      StrCat(key, " exists already, and this identity may not read what it is"));
}

// AlreadyExists if there is an object at the key. An identity that may only write cannot look; the
// commit's own condition protects existing objects then.
absl::Status CheckFree(ObjectStore& store, std::string_view key) {
  const absl::Status there = store.Stat(key).status();
  if (there.ok()) return absl::AlreadyExistsError(StrCat(key, " exists already"));
  return absl::IsNotFound(there) || absl::IsPermissionDenied(there) ? absl::OkStatus() : there;
}

// Checks the size after a successful write. The content needs no check, because the store or the
// transport has verified the bytes of each request.
absl::Status CheckWritten(ObjectStore& store, std::string_view key, std::uint64_t bytes) {
  ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(key));
  if (info.bytes == bytes) return absl::OkStatus();
  return absl::DataLossError(
      StrCat(key, " was written with ", bytes, " bytes, but the store has ", info.bytes));
}

class PartsUpload {
 public:
  PartsUpload(ObjectStore& store, std::string_view key, const ByteSource& bytes,
              const UploadOptions& options)
      : store_(store), uploads_(*store.uploads()), key_(key), bytes_(bytes), options_(options) {}

  absl::Status Run() {
    absl::Status status;
    {
      MutexLock lock(&mutex_);
      status = BeginOrResume();
    }
    if (status.ok()) status = SendParts();
    std::string id;
    std::vector<std::string> parts;
    {
      MutexLock lock(&mutex_);
      id = state_.id;
      parts = state_.parts;
    }
    // Looks again, because not every store can refuse to replace an object when it commits.
    if (status.ok()) status = CheckFree(store_, key_);
    if (status.ok()) status = uploads_.Commit(key_, id, parts);
    const bool resumable = options_.save && !absl::IsAlreadyExists(status);
    if (!status.ok() && !resumable && !id.empty()) {
      // Best effort: stores delete unfinished uploads after some days.
      (void)uploads_.Abort(key_, id);
    }
    return status;
  }

 private:
  absl::Status BeginOrResume() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    state_ = options_.resume;
    const UploadShape shape = ShapeOf(bytes_.size());
    const bool fresh = state_.parts.empty();  // The id is not a criterion: not every store has ids.
    if (fresh) state_.part_bytes = shape.part_bytes;
    const std::uint64_t part = state_.part_bytes;
    count_ = static_cast<std::size_t>((bytes_.size() + part - 1) / part);
    concurrency_ = static_cast<std::size_t>(shape.concurrency);
    state_.parts.resize(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      if (!state_.parts[i].empty()) done_ += SizeOf(i);
    }
    if (!fresh) return absl::OkStatus();
    ASSIGN_OR_RETURN(state_.id, uploads_.Begin(key_, options_.sha256));
    Save();
    return absl::OkStatus();
  }

  void Save() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (options_.save) options_.save(state_);
  }

  std::size_t SizeOf(std::size_t index) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::uint64_t offset = index * state_.part_bytes;
    return static_cast<std::size_t>(std::min(state_.part_bytes, bytes_.size() - offset));
  }

  absl::Status SendParts() {
    ParallelFor(concurrency_, concurrency_, [this](std::size_t) { Send(); });
    MutexLock lock(&mutex_);
    return status_;
  }

  void Send() {
    while (true) {
      std::size_t index = 0, size = 0;
      std::uint64_t offset = 0;
      std::string id;
      {
        MutexLock lock(&mutex_);
        while (next_ < count_ && !state_.parts[next_].empty()) ++next_;
        if (next_ == count_ || !status_.ok()) return;
        index = next_++;
        size = SizeOf(index);
        offset = index * state_.part_bytes;
        id = state_.id;
      }
      const absl::Status paced = options_.pace ? options_.pace(size) : absl::OkStatus();
      const absl::StatusOr<std::string> part =
          paced.ok() ? uploads_.Part(key_, id, index, bytes_, offset, size)
                     : absl::StatusOr<std::string>(paced);
      MutexLock lock(&mutex_);
      status_.Update(part.status());
      if (!part.ok()) return;
      state_.parts[index] = *part;
      done_ += size;
      Save();
      if (options_.progress) options_.progress(done_, bytes_.size());
    }
  }

  ObjectStore& store_;
  PartUploads& uploads_;
  const std::string key_;
  const ByteSource& bytes_;
  const UploadOptions& options_;
  std::size_t count_ = 0;
  std::size_t concurrency_ = 1;

  Mutex mutex_;
  UploadState state_ ABSL_GUARDED_BY(mutex_);
  std::size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

absl::Status UploadInParts(ObjectStore& store, std::string_view key, const ByteSource& bytes,
                           const UploadOptions& options) {
  absl::Status status = CheckFree(store, key);
  if (status.ok()) status = PartsUpload(store, key, bytes, options).Run();
  if (absl::IsNotFound(status)) {
    // The store does not know the upload: it was completed and the answer was lost, it was too old,
    // or S3 ended it because another write conflicted with its commit.
    status = CheckFree(store, key);
    if (status.ok()) {
      UploadOptions anew = options;
      anew.resume = {};
      status = PartsUpload(store, key, bytes, anew).Run();
    }
  }
  // A commit whose answer was lost is retried, and refused because it had succeeded.
  if (absl::IsAlreadyExists(status) || absl::IsNotFound(status))
    return CheckStored(store, key, bytes.size(), options, status);
  return status;
}

}  // namespace

UploadShape ShapeOf(std::uint64_t bytes) {
  if (bytes <= kOneRequest) return {};
  UploadShape shape;
  const std::uint64_t least = (bytes + kMaxParts - 1) / kMaxParts;
  shape.part_bytes = std::max(kMinPart, (least + kMiB - 1) / kMiB * kMiB);
  shape.parts = static_cast<std::size_t>((bytes + shape.part_bytes - 1) / shape.part_bytes);
  const std::uint64_t fitting = std::max<std::uint64_t>(1, kMaxInFlight / shape.part_bytes);
  shape.concurrency = static_cast<int>(
      std::min<std::uint64_t>({fitting, shape.parts, std::uint64_t{kMaxConcurrent}}));
  return shape;
}

absl::StatusOr<std::string> HashObject(ObjectStore& store, std::string_view key) {
  return HashWith(
      [&](std::uint64_t offset, std::span<char> into) { return store.Read(key, offset, into); });
}

absl::StatusOr<std::string> HashBytes(const ByteSource& bytes) {
  return HashWith([&](std::uint64_t offset, std::span<char> into) -> absl::StatusOr<std::size_t> {
    into = into.first(
        static_cast<std::size_t>(std::min<std::uint64_t>(into.size(), bytes.size() - offset)));
    RETURN_IF_ERROR(bytes.Read(offset, into));
    return into.size();
  });
}

absl::Status Upload(ObjectStore& store, std::string_view key, const ByteSource& bytes,
                    const UploadOptions& options) {
  if (store.uploads() != nullptr && ShapeOf(bytes.size()).part_bytes > 0) {
    RETURN_IF_ERROR(UploadInParts(store, key, bytes, options));
  } else {
    if (options.pace) RETURN_IF_ERROR(options.pace(bytes.size()));
    const absl::Status status =
        store.Put(key, bytes, {.sha256 = options.sha256, .create_only = true});
    if (absl::IsAlreadyExists(status))
      return CheckStored(store, key, bytes.size(), options, status);
    if (!status.ok()) return status;
    if (options.progress) options.progress(bytes.size(), bytes.size());
  }
  const absl::Status written = CheckWritten(store, key, bytes.size());
  return absl::IsPermissionDenied(written) ? absl::OkStatus() : written;
}

}  // namespace strobe::storage
