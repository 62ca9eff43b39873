#include "operator/kube/event_recorder.h"

#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/guard.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"
#include "operator/base/names.h"

namespace strobe::kube {
namespace {

constexpr std::size_t kMaxSeries = 4096;
constexpr std::size_t kMaxNote = 1000;
constexpr Nanos kSendLimit = std::chrono::seconds(10);
// The API server deletes events after about an hour; client-go starts a new series after six
// minutes as well.
constexpr Nanos kSeriesAge = std::chrono::minutes(6);
constexpr double kNotesAtOnce = 10, kNotesPerSecond = kNotesAtOnce / 360;

}  // namespace

Json EventToJson(const Event& event, const std::string& name, const std::string& time,
                 const std::string& instance) {
  return {{"apiVersion", "events.k8s.io/v1"},
          {"kind", "Event"},
          {"metadata", {{"name", name}, {"namespace", event.regarding.ns}}},
          {"eventTime", time},
          {"reportingController", kReportingController},
          {"reportingInstance", CutUtf8(instance, 128)},
          {"action", event.action},
          {"reason", event.reason},
          {"note", CutUtf8(event.note, kMaxNote)},
          {"type", event.warning ? "Warning" : "Normal"},
          {"regarding",
           {{"apiVersion", event.regarding.api_version},
            {"kind", event.regarding.kind},
            {"namespace", event.regarding.ns},
            {"name", event.regarding.name},
            {"uid", event.regarding.uid}}}};
}

EventRecorder::EventRecorder(const Clock& clock, Client& client, std::string instance)
    : clock_(clock),
      client_(client),
      instance_(std::move(instance)),
      thread_([this] { RunThread("events", [this] { Run(); }); }) {}

EventRecorder::~EventRecorder() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    give_up_ = clock_.MonoNow() + std::chrono::seconds(2);
  }
  thread_.join();
}

void EventRecorder::Record(Event event) {
  MutexLock lock(&mutex_);
  const std::string ns = event.regarding.ns;
  if (!queue_.Push(ns, clock_.MonoNow(), std::move(event))) ++dropped_;
}

void EventRecorder::Run() {
  while (true) {
    std::optional<Event> event;
    {
      MutexLock lock(&mutex_);
      const auto work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !queue_.empty();
      };
      mutex_.Await(work);
      if (queue_.empty() || (stopping_ && clock_.MonoNow() > give_up_)) return;
      event = queue_.Pop(MonoTime::max());
    }
    (void)RunGuarded("events", [&] { Send(*event); });
  }
}

void EventRecorder::Send(const Event& event) {
  const MonoTime now = clock_.MonoNow();
  std::erase_if(series_, [&](const auto& entry) { return now - entry.second.last > kSeriesAge; });
  // Bounds the memory. Forgetting a series only causes a new event instead of a higher count.
  if (series_.size() > kMaxSeries) series_.clear();
  const std::string key =
      StrCat(event.regarding.uid, "|", event.warning ? 1 : 0, "|", event.reason, "|", event.action);
  const std::string note = CutUtf8(event.note, kMaxNote);
  if (Count(key, note, now)) return;
  // What stands before a dot of a name must end with a letter or a digit.
  std::string object = event.regarding.name.substr(0, 200);
  while (object.ends_with('-') || object.ends_with('.')) object.pop_back();
  const std::string name =
      StrCat(object, ".",
             // The time and a serial number make the name unique.
             absl::StrFormat("%x%04x", ToUnixNanos(clock_.WallNow()), serial_++ & 0xffff));
  const std::string collection =
      StrCat("/apis/events.k8s.io/v1/namespaces/", event.regarding.ns, "/events");
  const std::string time = FormatRfc3339(clock_.WallNow(), 6);
  const absl::Status status =
      client_.Create(collection, EventToJson(event, name, time, instance_), kSendLimit).status();
  if (!status.ok()) {
    LogWarning("an event was not sent", {{"error", MessageOf(status)}});
    return;
  }
  const auto known = series_.find(key);
  const fair::TokenBucket notes = known != series_.end()
                                      ? known->second.notes
                                      : fair::TokenBucket(kNotesPerSecond, kNotesAtOnce, now);
  series_.insert_or_assign(key, Series{.path = StrCat(collection, "/", name),
                                       .note = note,
                                       .count = 1,
                                       .last = now,
                                       .notes = notes});
}

bool EventRecorder::Count(const std::string& key, const std::string& note, MonoTime now) {
  const auto known = series_.find(key);
  if (known == series_.end()) return false;
  Series& series = known->second;
  series.notes.Refill(now);
  if (series.note != note && series.notes.Take()) return false;
  series.last = now;
  ++series.count;
  const std::string time = FormatRfc3339(clock_.WallNow(), 6);
  const absl::Status status =
      client_
          .MergePatch(series.path,
                      {{"series", {{"count", series.count}, {"lastObservedTime", time}}}},
                      kSendLimit)
          .status();
  if (absl::IsNotFound(status)) {  // The server has deleted the old event.
    series_.erase(known);
    return false;
  }
  if (!status.ok()) LogWarning("an event was not sent", {{"error", MessageOf(status)}});
  return true;
}

}  // namespace strobe::kube
