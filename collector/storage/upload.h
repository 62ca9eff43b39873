// Objects of any size into any store: in one request or in parts, with bounded memory, never over
// an object that is there already, and so that a process which is killed can go on where it was.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "collector/logdir/object_store.h"

namespace strobe {

// How an object of some size travels. Pure.
struct UploadShape {
  std::uint64_t part_bytes = 0;  // 0 = in one request.
  std::size_t parts = 1;
  int concurrency = 1;
};
UploadShape ShapeOf(std::uint64_t bytes);

// Where an upload in parts stands; what has to survive the process.
struct UploadState {
  std::string id{};  // Empty: not begun.
  std::uint64_t part_bytes = 0;
  std::vector<std::string> parts{};  // Id of each part that is there, empty for the others.
};

struct UploadOptions {
  std::string sha256{};  // Of the bytes; always given.
  UploadState resume{};
  // Told of every change, one call at a time. When it fails the upload ends with its status.
  std::function<absl::Status(const UploadState&)> save = nullptr;
  // Bytes that the store has, and how many there are in all; one call at a time.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress = nullptr;
};

// OK: the object is there, whole, and has these bytes; also when it was there before with these
// very bytes. AlreadyExists: an object with other bytes is there. With `save` a failed upload is
// left as it is, to be resumed or given up by the caller; without, it is aborted.
absl::Status Upload(ObjectStore& store, std::string_view key, const ByteSource& bytes,
                    const UploadOptions& options);

// Lower-case hex of an object's bytes, read in steps. The store's own word is not asked for.
absl::StatusOr<std::string> HashObject(ObjectStore& store, std::string_view key);
absl::StatusOr<std::string> HashBytes(const ByteSource& bytes);

}  // namespace strobe
