#include "collector/store/cloud_store.h"

#include <algorithm>
#include <array>

#include "collector/store/bridge/bridge.h"
#include "collector/store/store_error.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::storage {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct TextFreer {
  void operator()(char* text) const { strobe_store_free_text(text); }
};
using OwnedText = std::unique_ptr<char, TextFreer>;

int ReadFor(void* context, std::uint64_t offset, std::uint8_t* into, std::size_t size) {
  const auto& read =
      *static_cast<std::function<absl::Status(std::uint64_t, std::span<char>)>*>(context);
  return read(offset, {reinterpret_cast<char*>(into), size}).ok() ? 0 : 1;
}

class CloudStore final : public ObjectStore, public PartUploads {
 public:
  CloudStore(strobe_store* store, const Logdir& logdir, const StoreLimits& limits)
      : store_(store), url_(logdir.url()), root_(logdir.path()), limits_(limits) {}
  ~CloudStore() override { strobe_store_close(store_); }
  CloudStore(const CloudStore&) = delete;
  CloudStore& operator=(const CloudStore&) = delete;

  absl::Status Put(std::string_view key, const ByteSource& bytes,
                   const PutOptions& options) override {
    return WithReader(bytes, [&](strobe_store_reader reader, void* context) {
      return Call(
          "write", key, bytes.size(), [&](strobe_store_call call, strobe_store_error* error) {
            return strobe_store_put(store_, call, Full(key).c_str(), options.sha256.c_str(),
                                    options.create_only, reader, context, bytes.size(), error);
          });
    });
  }
  absl::StatusOr<ObjectInfo> Stat(std::string_view key) override {
    ObjectInfo info;
    std::array<char, 65> sha256{};
    char* version = nullptr;
    RETURN_IF_ERROR(Call("look up", key, 0, [&](strobe_store_call call, strobe_store_error* error) {
      return strobe_store_stat(store_, call, Full(key).c_str(), &info.bytes, sha256.data(),
                               &version, error);
    }));
    info.sha256 = sha256.data();
    if (const OwnedText text(version); text != nullptr) info.version = text.get();
    return info;
  }
  absl::StatusOr<std::size_t> Read(std::string_view key, std::uint64_t offset,
                                   std::span<char> into) override {
    return ReadVersion(key, "", offset, into);
  }
  absl::StatusOr<std::size_t> ReadVersion(std::string_view key, const std::string& version,
                                          std::uint64_t offset, std::span<char> into) override {
    std::size_t got = 0;
    bool past_end = false;
    const absl::Status status =
        Call("read", key, into.size(), [&](strobe_store_call call, strobe_store_error* error) {
          const int code = strobe_store_read(store_, call, Full(key).c_str(), version.c_str(),
                                             offset, reinterpret_cast<std::uint8_t*>(into.data()),
                                             into.size(), &got, error);
          // Stores answer 416 if the offset is at or behind the end.
          past_end = code != STROBE_STORE_OK && error->http_status == 416;
          return code;
        });
    if (past_end) return 0;
    if (absl::IsAlreadyExists(status))  // The answer to a version that does not exist any more.
      return absl::DataLossError(ToAbsl(StrCat(url_, "/", key, " was replaced while it was read")));
    if (!status.ok()) return status;
    return got;
  }
  absl::Status ListUnchecked(std::string_view prefix, const Visitor& visit) override {
    return ListWith(prefix, false, [&](const Listed& object) {
      return visit({.key = std::string(object.key),
                    .bytes = object.bytes,
                    .version = std::string(object.version)});
    });
  }
  absl::StatusOr<std::vector<std::string>> ListDirectoriesUnchecked(
      std::string_view prefix) override {
    std::vector<std::string> names;
    RETURN_IF_ERROR(ListWith(prefix, true, [&](const Listed& object) {
      std::string_view name = object.key;
      if (!object.is_prefix || !name.starts_with(prefix)) return true;
      name.remove_prefix(prefix.size());
      if (name.ends_with('/')) name.remove_suffix(1);
      names.emplace_back(name);
      return true;
    }));
    return names;
  }
  absl::Status Delete(std::span<const std::string> keys) override {
    std::vector<std::string> full;
    std::vector<const char*> raw;
    for (const std::string& key : keys) full.push_back(Full(key));
    for (const std::string& key : full) raw.push_back(key.c_str());
    if (raw.empty()) return absl::OkStatus();
    const std::string what =
        keys.size() == 1 ? keys.front() : StrCat(keys.front(), " and ", keys.size() - 1, " more");
    return Call("delete", what, 0, [&](strobe_store_call call, strobe_store_error* error) {
      // A request deletes up to 1,000 objects, but only one on some stores.
      call.timeout_ms += 20 * raw.size();
      return strobe_store_delete(store_, call, raw.data(), raw.size(), error);
    });
  }

  // The crate refuses paths with control characters.
  bool CanRead(std::string_view key) const override {
    return std::none_of(key.begin(), key.end(),
                        [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  }
  PartUploads* uploads() override { return this; }
  absl::StatusOr<std::string> Begin(std::string_view key, std::string_view sha256) override {
    char* id = nullptr;
    RETURN_IF_ERROR(
        Call("begin to write", key, 0, [&](strobe_store_call call, strobe_store_error* error) {
          return strobe_store_upload_begin(store_, call, Full(key).c_str(),
                                           std::string(sha256).c_str(), &id, error);
        }));
    return std::string(OwnedText(id).get());
  }
  absl::StatusOr<std::string> Part(std::string_view key, const std::string& upload,
                                   std::size_t index, const ByteSource& bytes, std::uint64_t offset,
                                   std::size_t size) override {
    char* id = nullptr;
    RETURN_IF_ERROR(WithReader(bytes, [&](strobe_store_reader reader, void* context) {
      return Call(
          "write a part of", key, size, [&](strobe_store_call call, strobe_store_error* error) {
            return strobe_store_upload_part(store_, call, Full(key).c_str(), upload.c_str(), index,
                                            reader, context, offset, size, &id, error);
          });
    }));
    return std::string(OwnedText(id).get());
  }
  absl::Status Commit(std::string_view key, const std::string& upload,
                      std::span<const std::string> parts) override {
    std::vector<const char*> raw;
    for (const std::string& part : parts) raw.push_back(part.c_str());
    // The time limit is higher, because servers combine the parts now.
    return Call("finish", key, 64ull << 20, [&](strobe_store_call call, strobe_store_error* error) {
      return strobe_store_upload_commit(store_, call, Full(key).c_str(), upload.c_str(), raw.data(),
                                        raw.size(), error);
    });
  }
  absl::Status Abort(std::string_view key, const std::string& upload) override {
    return Call("give up", key, 0, [&](strobe_store_call call, strobe_store_error* error) {
      return strobe_store_upload_abort(store_, call, Full(key).c_str(), upload.c_str(), error);
    });
  }

 private:
  std::string Full(std::string_view key) const {
    return root_.empty() ? std::string(key) : StrCat(root_, "/", key);
  }

  template <typename Operation>
  absl::Status Call(std::string_view doing, std::string_view key, std::uint64_t bytes,
                    const Operation& operation) const {
    const std::string what = StrCat(doing, " ", url_, "/", key);
    // The limit allows a rate of at least 256 KiB/s.
    const Nanos longest = seconds(30) + milliseconds(bytes / 256);
    const Nanos left = limits_.deadline - clock_.MonoNow();
    if (left <= Nanos{0})
      return absl::DeadlineExceededError(ToAbsl(StrCat("no time left to ", what)));
    const strobe_store_call call = {
        .timeout_ms = static_cast<std::uint64_t>(std::min(longest, left) / milliseconds(1)) + 1,
        .cancelled = limits_.cancellation == nullptr ? nullptr : limits_.cancellation->byte()};
    strobe_store_error error = {};
    if (operation(call, &error) == STROBE_STORE_OK) return absl::OkStatus();
    const OwnedText message(error.message);
    return ToStatus({.code = error.code,
                     .http_status = error.http_status,
                     .message = message == nullptr ? "" : message.get()},
                    what);
  }

  // Prefers the reader's own status, because a file that cannot be read is not an error of the
  // store.
  template <typename Operation>
  static absl::Status WithReader(const ByteSource& bytes, const Operation& operation) {
    absl::Status read_status;
    std::function<absl::Status(std::uint64_t, std::span<char>)> read = [&](std::uint64_t offset,
                                                                           std::span<char> into) {
      return read_status = bytes.Read(offset, into);
    };
    const absl::Status status = operation(&ReadFor, &read);
    return read_status.ok() ? status : read_status;
  }

  struct Listed {
    std::string_view key{};
    std::uint64_t bytes = 0;
    bool is_prefix = false;
    std::string_view version{};
  };
  absl::Status ListWith(std::string_view prefix, bool shallow,
                        std::function<bool(const Listed&)> visit) const {
    struct Context {
      const std::string root;
      const std::function<bool(const Listed&)>& visit;
    } context{Full(""), visit};
    std::string full = Full(prefix);
    while (full.ends_with('/')) full.pop_back();
    constexpr std::uint64_t kManyObjects = 1ull << 30;  // One call may take thousands of requests.
    return Call("list", prefix, kManyObjects,
                [&](strobe_store_call call, strobe_store_error* error) {
                  return strobe_store_list(
                      store_, call, full.c_str(), shallow,
                      [](void* raw, const char* key, std::size_t size, std::uint64_t bytes,
                         int is_prefix, const char* version, std::size_t version_size) {
                        const auto& target = *static_cast<Context*>(raw);
                        std::string_view below(key, size);
                        if (!below.starts_with(target.root)) return 0;
                        below.remove_prefix(target.root.size());
                        const Listed object{.key = below,
                                            .bytes = bytes,
                                            .is_prefix = is_prefix != 0,
                                            .version = {version, version_size}};
                        return target.visit(object) ? 0 : 1;
                      },
                      &context, error);
                });
  }

  strobe_store* const store_;
  const std::string url_, root_;
  const StoreLimits limits_;
  const SystemClock clock_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ObjectStore>> OpenCloudStore(
    const Logdir& logdir, const std::map<std::string, std::string>& options,
    const StoreLimits& limits) {
  std::vector<const char*> flat;
  for (const auto& [key, value] : options) {
    flat.push_back(key.c_str());
    flat.push_back(value.c_str());
  }
  strobe_store* store = nullptr;
  strobe_store_error error = {};
  if (strobe_store_open(logdir.scheme().c_str(), logdir.bucket().c_str(), flat.data(), flat.size(),
                        &store, &error) != STROBE_STORE_OK) {
    const OwnedText message(error.message);
    return ToStatus({.code = STROBE_STORE_BAD_CONFIG,
                     .http_status = 0,
                     .message = message == nullptr ? "" : message.get()},
                    StrCat("open ", logdir.url()));
  }
  return std::make_unique<CloudStore>(store, logdir, limits);
}

}  // namespace strobe::storage
