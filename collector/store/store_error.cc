#include "collector/store/store_error.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <regex>
#include <span>
#include <system_error>

#include "collector/store/bridge/bridge.h"
#include "common/base/strings.h"

namespace strobe::storage {
namespace {

constexpr std::size_t kMaxWords = 600;

// Returns the text between <tag> and </tag>; empty if there is none.
std::string Element(std::string_view text, std::string_view tag) {
  const std::string open = StrCat("<", tag, ">"), close = StrCat("</", tag, ">");
  const std::size_t begin = text.find(open);
  if (begin == std::string_view::npos) return "";
  const std::size_t from = begin + open.size(), end = text.find(close, from);
  return end == std::string_view::npos ? "" : std::string(text.substr(from, end - from));
}

// Returns what the server answered, with the status line. The rest of a message has the URL and the
// object's key, which may contain any word.
std::string_view AnswerOf(std::string_view message) {
  for (const std::string_view mark : {"status code: ", "error response: "}) {
    if (const std::size_t at = message.find(mark); at != std::string_view::npos)
      return message.substr(at + mark.size());
  }
  return "";
}

// Returns the code and message of the store's XML answer, or else the library's message.
std::string StoreWords(const StoreFailure& failure) {
  const std::string code = Element(failure.message, "Code");
  std::string words = Element(failure.message, "Message");
  if (const std::size_t line = words.find('\n'); line != std::string::npos) words.resize(line);
  if (code.empty()) {
    // "Generic S3 error: Error performing PUT https://... in 2ms - Server returned non-2xx status
    // code: 503 Service Unavailable: <body>": only the part behind the mark is informative.
    constexpr std::string_view kMark = "status code: ";
    const std::size_t mark = failure.message.find(kMark);
    if (mark == std::string::npos || failure.http_status == 0) return failure.message;
    std::string answer = StrCat("HTTP ", failure.message.substr(mark + kMark.size()));
    while (answer.ends_with(' ') || answer.ends_with(':')) answer.pop_back();
    return answer;
  }
  return words.empty() ? code : StrCat(code, ": ", words);
}

bool IsAnyOf(std::string_view text, std::span<const std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return Contains(text, word); });
}

// Codes in the bodies of 400 and 403 answers that mean expired credentials, not a missing
// permission.
constexpr std::array<std::string_view, 6> kExpired = {
    "ExpiredToken",
    "TokenRefreshRequired",
    "RequestExpired",
    "ExpiredTokenException",
    "Signature not valid in the specified time frame",
    "token is expired"};
constexpr std::array<std::string_view, 3> kClock = {"RequestTimeTooSkewed", "RequestInTheFuture",
                                                    "server time and request time"};
constexpr std::array<std::string_view, 5> kThrottled = {
    "SlowDown", "Throttl", "RequestLimitExceeded", "ServerBusy", "TooManyRequests"};
// Codes of 409 answers to a write that met another one. The other may fail, so there may be no
// object.
constexpr std::array<std::string_view, 2> kConflicts = {"ConditionalRequestConflict",
                                                        "OperationAborted"};
// Codes of 400 answers to a request that did not arrive whole.
constexpr std::array<std::string_view, 4> kBroken = {"RequestTimeout", "IncompleteBody",
                                                     "BadDigest", "XAmzContentSHA256Mismatch"};
constexpr std::array<std::string_view, 4> kFull = {"QuotaExceeded", "EntityTooLarge",
                                                   "InsufficientStorage", "XMinioStorageFull"};
// Parts of messages about metadata and token services, where the credential chains look.
constexpr std::array<std::string_view, 6> kCredentials = {
    "token request",    "computeMetadata",           "latest/meta-data",
    "latest/api/token", "AssumeRoleWithWebIdentity", "metadata/identity"};

// What the library says of an answer that leads to another region and does not name it.
constexpr std::string_view kOtherRegion = "redirect without LOCATION";

constexpr std::array<std::string_view, 2> kUntrusted = {"UnknownIssuer", "invalid peer cert"};

absl::StatusCode CodeOf(const StoreFailure& failure) {
  const std::string_view text = failure.message;
  const int status = failure.http_status;
  // The request could not be built, for example for http:// where only https:// is allowed.
  if (Contains(text, "builder error")) return absl::StatusCode::kInvalidArgument;
  switch (failure.code) {
    case STROBE_STORE_CANCELLED:
      return absl::StatusCode::kCancelled;
    case STROBE_STORE_READER:
      return absl::StatusCode::kDataLoss;
    case STROBE_STORE_INTERNAL:
      return absl::StatusCode::kInternal;
    case STROBE_STORE_BAD_CONFIG:
      return absl::StatusCode::kInvalidArgument;
    case STROBE_STORE_NETWORK:
    case STROBE_STORE_TIMEOUT:
      // The store's certificate was refused, and will be refused again.
      if (IsAnyOf(text, kUntrusted)) return absl::StatusCode::kFailedPrecondition;
      // If no credential service answers, the pod usually has no identity.
      return IsAnyOf(text, kCredentials) ? absl::StatusCode::kUnauthenticated
                                         : absl::StatusCode::kUnavailable;
    default:
      break;
  }
  const std::string_view answer = AnswerOf(text);
  if (IsAnyOf(answer, kClock) || Contains(text, kOtherRegion))
    return absl::StatusCode::kFailedPrecondition;
  if (IsAnyOf(answer, kExpired)) return absl::StatusCode::kUnauthenticated;
  if (status == 429 || IsAnyOf(answer, kThrottled)) return absl::StatusCode::kUnavailable;
  if (status == 409 && IsAnyOf(answer, kConflicts)) return absl::StatusCode::kUnavailable;
  if (status == 400 && std::ranges::find(kBroken, Element(answer, "Code")) != kBroken.end())
    return absl::StatusCode::kUnavailable;
  if (status == 507 || IsAnyOf(answer, kFull)) return absl::StatusCode::kResourceExhausted;
  if (status == 501) return absl::StatusCode::kFailedPrecondition;
  if (status >= 500 || status == 408) return absl::StatusCode::kUnavailable;
  // Azure's uploads are their blocks, and these are gone: they were committed and the answer was
  // lost, another write of the blob discarded them, or they were too old.
  if (Element(text, "Code") == "InvalidBlockList") return absl::StatusCode::kNotFound;
  if (IsAnyOf(text, kCredentials)) {
    // A 4xx answer of a token service is a decision. No answer, or a 5xx, is not.
    return status >= 400 ? absl::StatusCode::kPermissionDenied : absl::StatusCode::kUnauthenticated;
  }
  switch (failure.code) {
    case STROBE_STORE_NOT_FOUND:
      return absl::StatusCode::kNotFound;
    case STROBE_STORE_EXISTS:
      return absl::StatusCode::kAlreadyExists;
    case STROBE_STORE_DENIED:
    case STROBE_STORE_UNAUTHENTICATED:
      return absl::StatusCode::kPermissionDenied;
    default:
      break;
  }
  // An invalid answer is usually caused by a lost connection or a bad proxy.
  return status == 0 ? absl::StatusCode::kUnavailable : absl::StatusCode::kFailedPrecondition;
}

std::string_view Hint(absl::StatusCode code, const StoreFailure& failure) {
  if (Contains(failure.message, kOtherRegion))
    return "; the bucket is probably in another region; set region";
  const std::string_view answer = AnswerOf(failure.message);
  if (IsAnyOf(answer, kClock)) return "; this machine's clock is wrong; set it by NTP";
  if (Contains(answer, "NoSuchBucket") || Contains(answer, "ContainerNotFound"))
    return "; create the bucket or correct the logdir";
  if (code == absl::StatusCode::kUnauthenticated || IsAnyOf(failure.message, kCredentials))
    return "; there are no valid credentials; see docs/how-to/storage.md for how to give the pod "
           "an "
           "identity";
  if (IsAnyOf(failure.message, kUntrusted)) return "; for a private CA set ca_bundle";
  return "";
}

}  // namespace

std::string Redact(std::string_view text) {
  static const std::regex kSecrets(
      "((sig|X-Amz-Signature|X-Amz-Credential|X-Amz-Security-Token|X-Goog-Signature|access_token|"
      "assertion|client_secret|WebIdentityToken|SecretAccessKey|SessionToken|sas_token|secret)"
      "(=|%3D|>|\"?:\\s*\"?))[^&\\s<>\"]+|((Bearer|SharedKey|AWS4-HMAC-SHA256)\\s+)[^\\s\"<>]+",
      std::regex::icase | std::regex::optimize);
  // std::regex recurses for each character, so its input is limited.
  const std::string bounded(text.substr(0, 4096));
  return std::regex_replace(bounded, kSecrets, "$1$4***");
}

absl::Status ToStatus(const StoreFailure& failure, std::string_view doing) {
  const absl::StatusCode code = CodeOf(failure);
  std::string words = Redact(StoreWords(failure));
  if (words.size() > kMaxWords) words = words.substr(0, kMaxWords) + "...";
  if (failure.http_status != 0 && !Contains(words, StrCat(failure.http_status)))
    words = StrCat("HTTP ", failure.http_status, " ", words);
  while (words.ends_with('.') && !words.ends_with("...")) words.pop_back();
  return absl::Status(code, ToAbsl(StrCat("cannot ", doing, ": ", words, Hint(code, failure))));
}

absl::Status FileError(int error, std::string_view doing, std::string_view path) {
  const std::string text =
      StrCat("cannot ", doing, " ", path, ": ", std::generic_category().message(error));
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(text);
    case EEXIST:
      return absl::AlreadyExistsError(text);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(text);
    case ENAMETOOLONG:
      return absl::InvalidArgumentError(text);
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace strobe::storage
