#include "operator/kube/reflector.h"

#include <algorithm>
#include <utility>

#include "common/base/duration.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "common/text/safe_text.h"

namespace strobe::kube {
namespace {

constexpr Nanos kVeryShort = std::chrono::seconds(1);
constexpr int kPageSize = 500;
// For a list of all that etcd can hold.
constexpr Nanos kListLimit = std::chrono::minutes(5);
// A connection that somebody on the way has dropped is silent. The API server's watch cache sends a
// bookmark each minute, so a longer silence is not believed. A server that sends none (its cache is
// off, or older and has seen no event yet) costs a watch and a list of one object in 95 s, which is
// little.
constexpr Nanos kMaxQuiet = std::chrono::seconds(90), kQuietLeeway = std::chrono::seconds(5);

bool HasName(const Json& object) {
  const auto metadata = object.find("metadata");
  return metadata != object.end() && metadata->is_object() && metadata->contains("name") &&
         (*metadata)["name"].is_string();
}

// Compares resource versions, which are increasing decimal numbers (Kubernetes guarantees this
// since 1.35). False if one of them is anything else.
bool IsOlder(std::string_view version, std::string_view than) {
  const auto number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (!number(version) || !number(than)) return false;
  return version.size() != than.size() ? version.size() < than.size() : version < than;
}

}  // namespace

Reflector::Reflector(const Clock& clock, Client& client, ReflectorOptions options,
                     ObjectCache& cache, std::function<void(const std::string&)> changed)
    : clock_(clock),
      client_(client),
      options_(std::move(options)),
      cache_(cache),
      changed_(std::move(changed)),
      backoff_(clock) {}

Reflector::~Reflector() {
  stop_.Notify();
  if (thread_.joinable()) thread_.join();
}

void Reflector::Start() {
  thread_ = std::thread([this] { RunThread("watch", [this] { Run(); }); });
}

void Reflector::Run() {
  while (!stop_.is_set()) {
    const absl::Status status = RunGuarded("watch", [this] { return listed_ ? Resume() : List(); });
    if (stop_.is_set()) return;
    if (status.ok()) continue;
    ++stats_.failures;
    if (absl::IsOutOfRange(status)) {
      // The cache keeps its content until the new list replaces it in one step. The list must be a
      // live one: a request for pages of an old version would be answered with exactly that
      // version, and the watch would expire again.
      from_quorum_ = true;
      listed_ = false;
    }
    broken_ = true;
    const Nanos wait = backoff_.Next();
    LogWarning("watching failed", {{"path", options_.path},
                                   {"error", MessageOf(status)},
                                   {"again_in", FormatDuration(wait)}});
    stop_.WaitFor(wait);
  }
}

absl::Status Reflector::List() {
  ++stats_.lists;
  try {
    return TakeList();
  } catch (const Json::exception& error) {
    return absl::DataLossError(StrCat("the list cannot be parsed: ", error.what()));
  }
}

absl::Status Reflector::TakeList() {
  std::vector<Object> objects;
  std::string version, next;
  do {
    // Version "0" lets the server answer from its cache.
    std::string path = StrCat(options_.path, "?limit=", kPageSize);
    if (!next.empty())
      path += StrCat("&continue=", UrlEncode(next));
    else if (!from_quorum_)
      path += "&resourceVersion=0";
    // Each object is trimmed before the next one comes: a list from the server's cache has all of
    // them, whatever the limit.
    ASSIGN_OR_RETURN(const Json list,
                     client_.GetItems(
                         path,
                         [&](Json& item) {
                           if (!HasName(item)) return;
                           Trim(item);
                           objects.push_back(std::make_shared<const Json>(std::move(item)));
                         },
                         kListLimit));
    const Json metadata = list.value("metadata", Json::object());
    version = metadata.value("resourceVersion", "");
    next = metadata.value("continue", "");
  } while (!next.empty() && !stop_.is_set());
  version_ = version;
  listed_ = true;
  from_quorum_ = false;
  broken_ = false;
  for (const std::string& key : cache_.ReplaceAll(std::move(objects))) changed_(key);
  if (!std::exchange(synced_, true) && options_.became_synced) options_.became_synced();
  return absl::OkStatus();
}

// After a restore from a backup, or after data loss, a server may have an older state. It then
// accepts a watch from a version of its future and never sends an event, so its version is checked
// first.
absl::Status Reflector::Resume() {
  if (!broken_) return Watch();
  ASSIGN_OR_RETURN(const Json list, client_.Get(options_.path + "?limit=1"));
  const std::string version =
      list.value("metadata", Json::object()).value("resourceVersion", std::string());
  if (IsOlder(version, version_))
    return absl::OutOfRangeError(StrCat("the server is at version ", version,
                                        ", which is before the last known version ", version_));
  broken_ = false;
  return Watch();
}

absl::Status Reflector::Watch() {
  ++stats_.watches;
  const MonoTime began = clock_.MonoNow();
  const std::uint64_t events_before = stats_.events;
  HttpRequest request;
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(options_.watch_timeout).count();
  request.path =
      StrCat(options_.path, "?watch=true&allowWatchBookmarks=true&timeoutSeconds=", seconds,
             "&resourceVersion=", UrlEncode(version_));
  request.timeout = std::min(options_.watch_timeout, kMaxQuiet) + kQuietLeeway;
  LineSplitter splitter;
  absl::Status event_status;
  const absl::StatusOr<HttpResponse> ended =
      client_.transport().Stream(request, stop_, [&](std::string_view chunk) {
        const bool fits = splitter.Feed(chunk, [&](std::string_view line) {
          if (event_status.ok()) event_status = OnEvent(line);
        });
        if (!fits) event_status = absl::OutOfRangeError("an event is larger than 8 MiB");
        return event_status.ok();
      });
  RETURN_IF_ERROR(event_status);
  if (absl::IsDeadlineExceeded(ended.status()) && clock_.MonoNow() - began >= request.timeout) {
    ++stats_.silences;
    Log(LogLevel::kDebug, "a watch is silent and begins anew", {{"path", options_.path}});
    broken_ = true;  // A server with an older state is silent too, so its version is checked.
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(ended.status());
  RETURN_IF_ERROR(ToStatus(*ended));
  if (clock_.MonoNow() - began < kVeryShort && stats_.events == events_before) {
    return absl::UnavailableError("the watch ended at once and without an event");
  }
  return absl::OkStatus();
}

absl::Status Reflector::OnEvent(std::string_view line) {
  try {
    return TakeEvent(line);
  } catch (const Json::exception& error) {
    // A field has an unexpected type. One bad event must not stop the others.
    ++stats_.bad_events;
    LogWarning("ignoring a watch event", {{"path", options_.path}, {"why", error.what()}});
    return absl::OkStatus();
  }
}

absl::Status Reflector::TakeEvent(std::string_view line) {
  static const JsonParts kParts{.keep = [](const std::vector<std::string>& path) {
    return path.size() != 3 || path[2] != "managedFields" || path[1] != "metadata";
  }};
  Json event = ReadJson(line, kParts);
  const auto bad = [this](std::string_view why) {
    ++stats_.bad_events;
    LogWarning("ignoring a watch event", {{"path", options_.path}, {"why", std::string(why)}});
    return absl::OkStatus();
  };
  if (!event.is_object() || !event.contains("object") || !event["object"].is_object())
    return bad("it is not an event");
  const std::string type = event.value("type", "");
  Json& object = event["object"];
  if (type == "ERROR") {
    const int code = object.value("code", 500);
    return ToStatus({.status = code < 400 ? 500 : code, .body = JsonText(object)});
  }
  if (type == "BOOKMARK") {
    version_ = object.value("metadata", Json::object()).value("resourceVersion", version_);
    ++stats_.events;
    return absl::OkStatus();
  }
  if (!HasName(object)) return bad("its object has no name");
  version_ = object["metadata"].value("resourceVersion", version_);
  ++stats_.events;
  const std::string key = KeyOf(object);
  if (type == "DELETED") {
    cache_.Remove(key);
  } else if (type == "ADDED" || type == "MODIFIED") {
    Trim(object);
    cache_.Put(std::make_shared<const Json>(std::move(object)));
  } else {
    return bad(StrCat("unknown type ", type));
  }
  changed_(key);
  return absl::OkStatus();
}

}  // namespace strobe::kube
