// Uploads objects of any size to any store, in one request or in parts, with bounded memory. Never
// overwrites an object, and can resume an upload after the process was killed.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collector/store/object_store.h"

namespace strobe::storage {

// How an object of a given size is uploaded.
struct UploadShape {
  std::uint64_t part_bytes = 0;  // 0 means one request.
  std::size_t parts = 1;
  int concurrency = 1;
};
// Chooses the shape for an object of this size. Pure.
UploadShape ShapeOf(std::uint64_t bytes);

// The state of an upload in parts, which must survive the process.
struct UploadState {
  std::string id{};   // Empty if the upload has not begun.
  std::string key{};  // The object's.
  std::uint64_t part_bytes = 0;
  std::vector<std::string> parts{};  // The id of each uploaded part; empty for the others.
};

struct UploadOptions {
  std::string sha256{};  // The checksum of the bytes; required.
  // Nobody else writes an object with this key. One that exists and may not be read is then taken
  // for what an earlier try wrote whose answer was lost.
  bool key_is_own = false;
  UploadState resume{};
  // Called for every change, one call at a time.
  std::function<void(const UploadState&)> save = nullptr;
  // Waits until so many bytes more may be sent; an error ends the upload. Called by several
  // threads, before each request, because requests have a time limit of their own.
  std::function<absl::Status(std::uint64_t bytes)> pace = nullptr;
  // Called with the number of uploaded bytes and the total, one call at a time.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress = nullptr;
};

// OK if the store has the complete object with these bytes, even if it existed before.
// AlreadyExists if an object with different bytes exists, or with bytes that may not be read. With
// `save`, an upload that failed for another reason is kept, for the caller to resume or abort;
// without, it is aborted.
absl::Status Upload(ObjectStore& store, std::string_view key, const ByteSource& bytes,
                    const UploadOptions& options);

// Return the SHA-256 of the bytes as lower-case hexadecimal digits. The object is read in steps;
// the checksum in its metadata is not used.
absl::StatusOr<std::string> HashObject(ObjectStore& store, std::string_view key);
absl::StatusOr<std::string> HashBytes(const ByteSource& bytes);

}  // namespace strobe::storage
