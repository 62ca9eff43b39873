#include "operator/access/capture_history.h"

#include <algorithm>

#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "operator/base/json_fields.h"
#include "operator/policy/policy.h"

namespace strobe::access {
namespace {

constexpr char kField[] = "last-ends.json";
constexpr std::size_t kMaxNamespaces = 1000;
// Short, because the end of a capture waits for the write.
constexpr Nanos kWriteLimit = std::chrono::seconds(5);
// Only the leader writes. Other replicas read again after this time, so their state is at most this
// old.
constexpr Nanos kReadAgain = std::chrono::seconds(10);

}  // namespace

std::string CaptureHistory::Path() const {
  return StrCat("/api/v1/namespaces/", options_.ns, "/configmaps/", options_.config_map);
}

void CaptureHistory::NoteEnd(const std::string& ns, WallTime when, std::optional<Nanos> keep) {
  std::uint64_t version = 0;
  {
    MutexLock lock(&mutex_);
    WallTime& end = ends_[ns];
    end = policy::CanHaveEnded(end, clock_.WallNow()) ? std::max(end, when) : when;
    const auto by_age = [](const auto& a, const auto& b) { return a.second < b.second; };
    // Bounds the memory and the ConfigMap; the oldest ends matter least for minInterval.
    while (ends_.size() > kMaxNamespaces)
      ends_.erase(std::min_element(ends_.begin(), ends_.end(), by_age));
    version = ++version_;
  }
  if (!keep || options_.config_map.empty()) return;
  // One write at a time, so that the last one has all ends.
  MutexLock writing(&writing_);
  const absl::Status written = Store(version, *keep);
  if (!written.ok()) {
    LogWarning(
        "the end of a capture could not be stored; minInterval may be forgotten by "
        "the next operator",
        {{"config_map", options_.config_map}, {"error", MessageOf(written)}});
  }
}

absl::Status CaptureHistory::Store(std::uint64_t version, Nanos keep) {
  bool loaded = false;
  {
    MutexLock lock(&mutex_);
    if (stored_ >= version) return absl::OkStatus();  // Another thread has stored this end, too.
    loaded = loaded_.has_value();
  }
  // The ConfigMap is replaced by what is known here, which must have the ends that an operator
  // before this one has stored.
  if (!loaded) RETURN_IF_ERROR(Load(kWriteLimit));
  kube::Json ends = kube::Json::object();
  {
    MutexLock lock(&mutex_);
    version = version_;
    for (const auto& [name, time] : ends_) {
      if (time + keep > clock_.WallNow()) ends[name] = FormatRfc3339(time);
    }
  }
  RETURN_IF_ERROR(
      client_.MergePatch(Path(), {{"data", {{kField, JsonText(ends)}}}}, kWriteLimit).status());
  MutexLock lock(&mutex_);
  stored_ = version;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<WallTime>> CaptureHistory::LastEnd(const std::string& ns,
                                                                Nanos within) {
  RETURN_IF_ERROR(Load(within));
  MutexLock lock(&mutex_);
  const auto found = ends_.find(ns);
  if (found == ends_.end() || !policy::CanHaveEnded(found->second, clock_.WallNow()))
    return std::nullopt;
  return found->second;
}

void CaptureHistory::Reload() {
  MutexLock lock(&mutex_);
  loaded_.reset();
}

absl::Status CaptureHistory::Load(Nanos within) {
  if (options_.config_map.empty()) return absl::OkStatus();
  {
    MutexLock lock(&mutex_);
    if (loaded_ && clock_.MonoNow() - *loaded_ < kReadAgain) return absl::OkStatus();
  }
  const absl::StatusOr<kube::Json> found = client_.Get(Path(), within);
  kube::Json stored;
  // A missing or damaged ConfigMap counts as empty, so that it cannot stop all captures.
  if (found.ok()) {
    const kube::Json data = found->value("data", kube::Json::object());
    stored = kube::Json::parse(data.is_object() ? data.value(kField, "{}") : "{}", nullptr, false);
  } else if (absl::IsNotFound(found.status())) {
    LogWarning("there is no ConfigMap to store the ends of captures",
               {{"config_map", options_.config_map}});
  } else {
    return found.status();
  }
  MutexLock lock(&mutex_);
  loaded_ = clock_.MonoNow();
  if (!stored.is_object()) return absl::OkStatus();
  for (const auto& [name, time] : stored.items()) {
    const std::optional<WallTime> end = kube::ReadTime(stored, name.c_str());
    if (end && policy::CanHaveEnded(*end, clock_.WallNow()) &&
        (ends_.size() < kMaxNamespaces || ends_.contains(name)))
      ends_[name] = std::max(ends_[name], *end);
  }
  return absl::OkStatus();
}

}  // namespace strobe::access
