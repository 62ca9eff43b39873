#include "operator/objects/capture_event.h"

#include "absl/strings/ascii.h"
#include "common/base/strings.h"

namespace strobe::objects {

using Json = nlohmann::json;

std::string CaptureEventId(const ProfileRequest& request) { return StrCat(request.uid, ".ended"); }

Json CaptureEvent(const ProfileRequest& request, const RequestStatus& status,
                  std::string_view result, const std::string& source, WallTime now) {
  Json data = {{"namespace", request.ns},
               {"name", request.name},
               {"uid", request.uid},
               {"result", result},
               {"attempt", status.attempt},
               {"bytes", status.bytes},
               {"workers",
                {{"matched", status.matched},
                 {"ok", status.ok},
                 {"empty", status.empty},
                 {"failed", status.failed}}}};
  if (const kube::Condition* end = kube::FindCondition(status.conditions, condition::kSucceeded)) {
    data["reason"] = end->reason;
    data["message"] = end->message;
  }
  if (const kube::Condition* synchronized =
          kube::FindCondition(status.conditions, condition::kSynchronized)) {
    data["synchronized"] = synchronized->status == kube::ConditionStatus::kTrue;
    data["synchronization"] = synchronized->message;
  }
  const auto add = [&](const char* field, const std::string& text) {
    if (!text.empty()) data[field] = text;
  };
  add("logdir", request.capture.logdir);
  add("run", status.run);
  add("viewer", status.viewer);
  add("skew", status.skew);
  add("reachedBack", status.reached_back);
  add("report", status.report);
  if (!status.stall.kind.empty())
    data["stall"] = {{"class", status.stall.kind},
                     {"confidence", status.stall.confidence},
                     {"verdict", status.stall.verdict}};
  if (status.start_time) data["startTime"] = FormatRfc3339(*status.start_time);
  if (status.completion_time) data["completionTime"] = FormatRfc3339(*status.completion_time);
  return {{"specversion", "1.0"},
          {"id", CaptureEventId(request)},
          {"source", source},
          {"type", StrCat("dev.strobe.capture.", absl::AsciiStrToLower(ToAbsl(result)))},
          {"subject", StrCat(request.ns, "/", request.name)},
          {"time", FormatRfc3339(now)},
          {"datacontenttype", "application/json"},
          {"data", std::move(data)}};
}

Json GrafanaAnnotation(const ProfileRequest& request, const RequestStatus& status,
                       std::string_view result, const std::string& source, WallTime now) {
  const auto millis = [](WallTime time) { return ToUnixNanos(time) / 1'000'000; };
  const WallTime begin = status.start_time.value_or(now);
  // The status has the sum of all attempts, and the start of the last one.
  const Nanos recorded =
      status.attempt == 1 && status.recorded ? *status.recorded : request.capture.duration;
  const kube::Condition* end = kube::FindCondition(status.conditions, condition::kSucceeded);
  std::string text = StrCat("Capture ", request.ns, "/", request.name, ": ", result);
  if (end != nullptr && !end->message.empty()) text += StrCat(": ", end->message);
  if (!status.report.empty()) text += StrCat("\n", status.report);
  if (!status.viewer.empty()) text += StrCat("\n", status.viewer);
  return {{"time", millis(begin)},
          {"timeEnd", millis(status.start_time ? begin + recorded : begin)},
          {"tags", {"strobe", source, request.ns, result}},
          {"text", text}};
}

}  // namespace strobe::objects
