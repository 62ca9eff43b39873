#include "operator/admission/review.h"

#include "absl/strings/escaping.h"
#include "common/base/mutex.h"
#include "common/base/strings.h"
#include "common/text/json.h"
#include "common/text/safe_text.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;

// Kubernetes allows 10,000 levels, but neither pods nor Strobe's objects come close to 200.
constexpr int kMaxDepth = 200;
// A parsed value takes up to twenty times the memory of its text, for example in "[[],[],[]...".
constexpr std::size_t kMaxValues = 400'000;
constexpr std::size_t kMaxWarningBytes = 256;  // The API server cuts longer warnings.

// Checks nesting and number of values by looking only at brackets and commas. The parser checks the
// rest.
absl::Status CheckShape(const std::string& text) {
  int depth = 0;
  std::size_t values = 1;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++values;
      if (++depth > kMaxDepth) return absl::InvalidArgumentError("nested too deeply");
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ',') {
      ++values;
    }
  }
  if (values > kMaxValues) return absl::InvalidArgumentError("too many values");
  return absl::OkStatus();
}

absl::StatusOr<AdmissionRequest> Read(const std::string& body) {
  // Nobody uses managedFields, which have an entry for each label.
  static const JsonParts kParts{.keep = [](const std::vector<std::string>& path) {
    return path.size() != 4 || path[3] != "managedFields" || path[2] != "metadata";
  }};
  Json review = ReadJson(body, kParts);
  if (review.is_discarded()) return absl::InvalidArgumentError("the body is not JSON");
  try {
    if (review.at("kind") != "AdmissionReview" || review.at("apiVersion") != "admission.k8s.io/v1")
      return absl::InvalidArgumentError("the body is not an admission.k8s.io/v1 AdmissionReview");
    Json& asked = review.at("request");
    AdmissionRequest request;
    request.uid = asked.at("uid");
    request.operation = asked.at("operation");
    request.ns = asked.value("namespace", "");
    request.name = asked.value("name", "");
    request.dry_run = asked.value("dryRun", false);
    if (asked.contains("userInfo")) request.user = std::move(asked["userInfo"]);
    if (asked.contains("object")) request.object = std::move(asked["object"]);
    if (asked.contains("oldObject")) request.old_object = std::move(asked["oldObject"]);
    return request;
  } catch (const Json::exception&) {
    return absl::InvalidArgumentError(
        "the AdmissionReview lacks a field or a field has the wrong type");
  }
}

}  // namespace

absl::StatusOr<AdmissionRequest> ParseReview(const std::string& body) {
  if (const absl::Status status = CheckShape(body); !status.ok()) return status;
  if (body.size() < kBigReviewBytes) return Read(body);
  // Parses one large body at a time, so that untrusted clients cannot exhaust the memory.
  static Mutex big;
  MutexLock lock(&big);
  return Read(body);
}

Answer Refusal(int code, std::string message) {
  Answer answer;
  answer.allowed = false;
  answer.code = code;
  answer.message = std::move(message);
  return answer;
}

std::string AnswerReview(const std::string& uid, const Answer& answer) {
  Json response = {{"uid", uid}, {"allowed", answer.allowed}};
  if (!answer.allowed)
    response["status"] = {{"code", answer.code},
                          {"message", answer.message},
                          {"reason", answer.code == 403   ? "Forbidden"
                                     : answer.code == 503 ? "ServiceUnavailable"
                                     : answer.code == 500 ? "InternalError"
                                                          : "Invalid"}};
  if (!answer.warnings.empty()) {
    Json& warnings = response["warnings"] = Json::array();
    for (const std::string& warning : answer.warnings)
      warnings.push_back(CutUtf8(warning, kMaxWarningBytes));
  }
  if (!answer.patch.empty()) {
    response["patchType"] = "JSONPatch";
    response["patch"] = absl::Base64Escape(JsonText(answer.patch));
  }
  return JsonText({{"apiVersion", "admission.k8s.io/v1"},
                   {"kind", "AdmissionReview"},
                   {"response", std::move(response)}});
}

}  // namespace strobe::admission
