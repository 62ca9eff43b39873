// A store in memory that fails on demand, for failures that a real store cannot be made to show.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "collector/store/object_store.h"
#include "common/base/mutex.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {

// Keys that a store may tell in a listing of a run and that are nobody's file: the folder's own
// object, as consoles, gcsfuse and s3fs write it, "//", "..", and what is not in the folder at all.
inline std::vector<std::string> OddKeys(std::string_view run) {
  const std::string prefix = storage::RunPrefix(run);
  std::vector<std::string> keys = {"",
                                   "/",
                                   ".",
                                   "..",
                                   "x",
                                   "plugins",
                                   "plugins/",
                                   "plugins/profile",
                                   std::string(storage::kRunsPrefix),
                                   StrCat(storage::kRunsPrefix, "/"),
                                   StrCat("/", prefix, "w.xplane.pb"),
                                   "plugins//profile/w.xplane.pb"};
  // Parts of the prefix, which are shorter than it.
  for (std::size_t size = storage::kRunsPrefix.size(); size < prefix.size(); ++size)
    keys.push_back(prefix.substr(0, size));
  for (const std::string_view name :
       {"", "/", "//", "/w.xplane.pb", "//strobe.json", "a//w.xplane.pb", "./w.xplane.pb", "a/.",
        "../other/w.xplane.pb", "..", ".", "a/", "a/b/", "a/../w.xplane.pb", "w.xplane.pb/",
        "strobe.json/", "/strobe.capture", "strobe.capture//"})
    keys.push_back(StrCat(prefix, name));
  return keys;
}

// The content of a bucket, shared by the stores that are opened on it.
struct MemoryBucket {
  struct Object {
    std::string bytes, sha256;
    std::string version{};
  };
  struct Upload {
    std::string key, sha256;
    std::map<std::string, std::string> parts;  // Part id to bytes.
  };
  Mutex mutex;
  std::map<std::string, Object, std::less<>> objects ABSL_GUARDED_BY(mutex);
  std::map<std::string, Upload> uploads ABSL_GUARDED_BY(mutex);
  std::vector<std::string> calls ABSL_GUARDED_BY(mutex);
  int serial ABSL_GUARDED_BY(mutex) = 0;
  bool keeps_sha256 = true;
  std::vector<std::string> strays{};  // Every listing tells these keys, whatever its prefix.
  // Called before and after each call ("put", "stat", "part"...). An error from `before` is a call
  // that failed; an error from `after` is a call that took effect but whose answer was lost.
  std::function<absl::Status(const std::string&call)> before, after;

  std::string Bytes(std::string_view key) {
    MutexLock lock(&mutex);
    const auto found = objects.find(key);
    return found == objects.end() ? "" : found->second.bytes;
  }
  std::size_t Count(const std::string& call) {
    MutexLock lock(&mutex);
    return static_cast<std::size_t>(std::count(calls.begin(), calls.end(), call));
  }
  std::size_t OpenUploads() {
    MutexLock lock(&mutex);
    return uploads.size();
  }
};

class MemoryStore final : public storage::ObjectStore, public storage::PartUploads {
 public:
  explicit MemoryStore(MemoryBucket& bucket) : bucket_(bucket) {}

  absl::Status Put(std::string_view key, const storage::ByteSource& bytes,
                   const storage::PutOptions& options) override {
    return Do("put", [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(bucket_.mutex) -> absl::Status {
      if (options.create_only && bucket_.objects.contains(key))
        return absl::AlreadyExistsError("there");
      std::string all(bytes.size(), '\0');
      RETURN_IF_ERROR(bytes.Read(0, all));
      bucket_.objects[std::string(key)] = {all, options.sha256, StrCat("v", ++bucket_.serial)};
      return absl::OkStatus();
    });
  }
  absl::StatusOr<storage::ObjectInfo> Stat(std::string_view key) override {
    storage::ObjectInfo info;
    RETURN_IF_ERROR(Do("stat", [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(bucket_.mutex) -> absl::Status {
      const auto found = bucket_.objects.find(key);
      if (found == bucket_.objects.end()) return absl::NotFoundError("no such object");
      info = {found->second.bytes.size(), bucket_.keeps_sha256 ? found->second.sha256 : "",
              found->second.version};
      return absl::OkStatus();
    }));
    return info;
  }
  absl::StatusOr<std::size_t> Read(std::string_view key, std::uint64_t offset,
                                   std::span<char> into) override {
    return ReadVersion(key, "", offset, into);
  }
  absl::StatusOr<std::size_t> ReadVersion(std::string_view key, const std::string& version,
                                          std::uint64_t offset, std::span<char> into) override {
    std::size_t got = 0;
    RETURN_IF_ERROR(Do("read", [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(bucket_.mutex) -> absl::Status {
      const auto found = bucket_.objects.find(key);
      if (found == bucket_.objects.end()) return absl::NotFoundError("no such object");
      if (!version.empty() && version != found->second.version)
        return absl::DataLossError(StrCat(key, " was replaced while it was read"));
      const std::string& bytes = found->second.bytes;
      if (offset < bytes.size()) got = bytes.copy(into.data(), into.size(), offset);
      return absl::OkStatus();
    }));
    return got;
  }
  absl::Status ListUnchecked(std::string_view prefix, const Visitor& visit) override {
    return Do("list", [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(bucket_.mutex) -> absl::Status {
      for (const std::string& key : bucket_.strays) {
        if (!visit({.key = key})) return absl::OkStatus();
      }
      for (const auto& [key, object] : bucket_.objects) {
        if (key.starts_with(prefix) && !visit({key, object.bytes.size(), object.version})) break;
      }
      return absl::OkStatus();
    });
  }
  absl::StatusOr<std::vector<std::string>> ListDirectoriesUnchecked(
      std::string_view prefix) override {
    std::vector<std::string> names;
    RETURN_IF_ERROR(ListUnchecked(prefix, [&](const storage::StoredObject& object) {
      const std::string rest = object.key.substr(std::min(prefix.size(), object.key.size()));
      if (const std::size_t slash = rest.find('/'); slash != std::string::npos)
        names.push_back(rest.substr(0, slash));
      return true;
    }));
    return names;
  }
  absl::Status Delete(std::span<const std::string> keys) override {
    return Do("delete", [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(bucket_.mutex) -> absl::Status {
      for (const std::string& key : keys) bucket_.objects.erase(key);
      return absl::OkStatus();
    });
  }

  storage::PartUploads* uploads() override { return this; }
  absl::StatusOr<std::string> Begin(std::string_view key, std::string_view sha256) override {
    std::string id;
    RETURN_IF_ERROR(Do("begin", [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(bucket_.mutex) -> absl::Status {
      id = StrCat("upload-", ++bucket_.serial);
      bucket_.uploads[id] = {std::string(key), std::string(sha256), {}};
      return absl::OkStatus();
    }));
    return id;
  }
  absl::StatusOr<std::string> Part(std::string_view key, const std::string& upload,
                                   std::size_t index, const storage::ByteSource& bytes,
                                   std::uint64_t offset, std::size_t size) override {
    const std::string id = StrCat("part-", index);
    std::string all(size, '\0');
    RETURN_IF_ERROR(bytes.Read(offset, all));
    RETURN_IF_ERROR(Do("part", [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(bucket_.mutex) -> absl::Status {
      const auto found = bucket_.uploads.find(upload);
      if (found == bucket_.uploads.end() || found->second.key != key)
        return absl::NotFoundError("no such upload");
      found->second.parts[id] = std::move(all);
      return absl::OkStatus();
    }));
    return id;
  }
  absl::Status Commit(std::string_view key, const std::string& upload,
                      std::span<const std::string> parts) override {
    return Do("commit", [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(bucket_.mutex) -> absl::Status {
      const auto found = bucket_.uploads.find(upload);
      if (found == bucket_.uploads.end() || found->second.key != key)
        return absl::NotFoundError("no such upload");
      if (bucket_.objects.contains(key)) return absl::AlreadyExistsError("there");
      MemoryBucket::Object object{"", found->second.sha256};
      for (const std::string& part : parts) object.bytes += found->second.parts.at(part);
      bucket_.objects[std::string(key)] = std::move(object);
      bucket_.uploads.erase(found);
      return absl::OkStatus();
    });
  }
  absl::Status Abort(std::string_view key, const std::string& upload) override {
    return Do("abort", [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(bucket_.mutex) -> absl::Status {
      std::erase_if(bucket_.uploads, [&](const auto& entry) {
        return entry.first == upload && entry.second.key == key;
      });
      return absl::OkStatus();
    });
  }

 private:
  template <typename Work>
  absl::Status Do(const std::string& call, const Work& work) {
    if (bucket_.before) RETURN_IF_ERROR(bucket_.before(call));
    {
      MutexLock lock(&bucket_.mutex);
      bucket_.calls.push_back(call);
      RETURN_IF_ERROR(work());
    }
    return bucket_.after ? bucket_.after(call) : absl::OkStatus();
  }

  MemoryBucket& bucket_;
};

class MemoryStores final : public storage::StoreOpener {
 public:
  explicit MemoryStores(MemoryBucket& bucket) : bucket_(bucket) {}
  absl::StatusOr<std::unique_ptr<storage::ObjectStore>> Open(const storage::Logdir&,
                                                             const storage::StoreLimits&) override {
    return std::make_unique<MemoryStore>(bucket_);
  }

 private:
  MemoryBucket& bucket_;
};

}  // namespace strobe
