#include "collector/store/store_error.h"

#include <gmock/gmock.h>

#include "collector/store/bridge/bridge.h"
#include "common/base/strings.h"

namespace strobe::storage {
namespace {

using testing::HasSubstr;
using testing::Not;

// The failure that the object_store crate reports for an error response from S3.
StoreFailure S3Answer(int code, int status, const std::string& s3_code, const std::string& words) {
  return {code, status,
          StrCat("Generic S3 error: Error performing PUT https://h/b/k in 2ms - Server returned "
                 "non-2xx status code: ",
                 status, " Whatever: <?xml version=\"1.0\"?><Error><Code>", s3_code,
                 "</Code><Message>", words, "</Message></Error>")};
}

TEST(ToStatus, TellsTheClassesOfFailuresApart) {
  using Code = absl::StatusCode;
  const auto code = [](const StoreFailure& failure) { return ToStatus(failure, "write x").code(); };
  EXPECT_EQ(code(S3Answer(STROBE_STORE_DENIED, 403, "AccessDenied", "no")),
            Code::kPermissionDenied);
  EXPECT_EQ(code(S3Answer(STROBE_STORE_DENIED, 403, "SignatureDoesNotMatch", "no")),
            Code::kPermissionDenied);
  EXPECT_EQ(code(S3Answer(STROBE_STORE_OTHER, 400, "ExpiredToken", "The provided token")),
            Code::kUnauthenticated);
  EXPECT_EQ(code(S3Answer(STROBE_STORE_DENIED, 403, "RequestTimeTooSkewed", "The difference")),
            Code::kFailedPrecondition);
  EXPECT_EQ(code(S3Answer(STROBE_STORE_NOT_FOUND, 404, "NoSuchBucket", "none")), Code::kNotFound);
  EXPECT_EQ(code(S3Answer(STROBE_STORE_OTHER, 503, "SlowDown", "slow")), Code::kUnavailable);
  EXPECT_EQ(code(S3Answer(STROBE_STORE_OTHER, 500, "InternalError", "we")), Code::kUnavailable);
  EXPECT_EQ(code(S3Answer(STROBE_STORE_OTHER, 507, "InsufficientStorage", "full")),
            Code::kResourceExhausted);
  EXPECT_EQ(code(S3Answer(STROBE_STORE_EXISTS, 412, "PreconditionFailed", "there")),
            Code::kAlreadyExists);
  EXPECT_EQ(code(S3Answer(STROBE_STORE_EXISTS, 409, "BlobAlreadyExists", "there")),
            Code::kAlreadyExists);
  EXPECT_EQ(code(S3Answer(STROBE_STORE_EXISTS, 409, "ConditionalRequestConflict", "retry")),
            Code::kUnavailable)
      << "the other write may fail, so there may be no object";
  EXPECT_EQ(code(S3Answer(STROBE_STORE_OTHER, 400, "InvalidArgument", "bad")),
            Code::kFailedPrecondition);
  EXPECT_EQ(code(S3Answer(STROBE_STORE_OTHER, 400, "InvalidBlockList",
                          "The specified block list is invalid.")),
            Code::kNotFound)
      << "a commit on Azure that is retried after it succeeded finds no blocks";
  EXPECT_EQ(code(S3Answer(STROBE_STORE_UNAUTHENTICATED, 401, "InvalidAuthenticationInfo",
                          "Lifetime validation failed. The token is expired.")),
            Code::kUnauthenticated);
  EXPECT_EQ(code(S3Answer(STROBE_STORE_UNAUTHENTICATED, 401, "AuthenticationRequired", "none")),
            Code::kPermissionDenied);
  EXPECT_EQ(code({STROBE_STORE_NETWORK, 0, "connection refused"}), Code::kUnavailable);
  EXPECT_EQ(code({STROBE_STORE_TIMEOUT, 0, "no answer within 5 ms"}), Code::kUnavailable);
  EXPECT_EQ(code({STROBE_STORE_CANCELLED, 0, "cancelled"}), Code::kCancelled);
  EXPECT_EQ(code({STROBE_STORE_BAD_CONFIG, 0, "no"}), Code::kInvalidArgument);
  EXPECT_EQ(code({STROBE_STORE_NETWORK, 0, "Error performing token request: timed out"}),
            Code::kUnauthenticated)
      << "a token service that is silent may come back";
  EXPECT_EQ(code({STROBE_STORE_NETWORK, 0, "invalid peer certificate: UnknownIssuer"}),
            Code::kFailedPrecondition)
      << "a certificate that is refused is refused again";
  EXPECT_EQ(code({STROBE_STORE_DENIED, 403, "Error performing token request: status code: 403"}),
            Code::kPermissionDenied);
}

// Regression: captures into runs with such names were retried for hours, because the run was free.
TEST(ToStatus, TheNameOfAnObjectIsNoAnswer) {
  for (const char* name : {"SlowDown-42", "Throttling", "QuotaExceeded", "ExpiredToken",
                           "RequestTimeTooSkewed", "NoSuchBucket", "OperationAborted"}) {
    const StoreFailure missing = {STROBE_STORE_NOT_FOUND, 404,
                                  StrCat("Object at location plugins/profile/", name,
                                         "/x not found: Error performing HEAD "
                                         "https://h/b/plugins/profile/",
                                         name,
                                         "/x in 2ms - Server returned non-2xx status "
                                         "code: 404 Not Found: ")};
    const absl::Status status = ToStatus(missing, "read x");
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << name;
    EXPECT_THAT(MessageOf(status), Not(HasSubstr("; "))) << "no hint";
    StoreFailure there = S3Answer(STROBE_STORE_EXISTS, 412, "PreconditionFailed", "there");
    there.message.insert(0, StrCat("Object at location ", name, " already exists: "));
    EXPECT_EQ(ToStatus(there, "write x").code(), absl::StatusCode::kAlreadyExists) << name;
  }
}

TEST(ToStatus, ARequestThatDidNotArriveWholeIsWorthAnotherTry) {
  for (const char* code :
       {"RequestTimeout", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch"})
    EXPECT_EQ(ToStatus(S3Answer(STROBE_STORE_OTHER, 400, code, "no"), "write x").code(),
              absl::StatusCode::kUnavailable)
        << code;
}

TEST(ToStatus, ABucketInAnotherRegionIsNamedAsSuch) {
  const absl::Status status = ToStatus(
      {STROBE_STORE_OTHER, 0,
       "Generic S3 error: Error performing PUT https://h/b/k in 2ms - Received redirect without "
       "LOCATION, this normally indicates an incorrectly configured region"},
      "write x");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(MessageOf(status), HasSubstr("set region"));
}

TEST(ToStatus, SaysWhatTheStoreSaidAndWhatToDo) {
  const absl::Status status =
      ToStatus(S3Answer(STROBE_STORE_NOT_FOUND, 404, "NoSuchBucket", "The bucket does not exist"),
               "write x to s3://b/logs");
  EXPECT_EQ(MessageOf(status),
            "cannot write x to s3://b/logs: HTTP 404 NoSuchBucket: The bucket does not exist; "
            "create the bucket or correct the logdir");
  EXPECT_THAT(MessageOf(ToStatus(
                  {STROBE_STORE_NETWORK, 0, "invalid peer certificate: UnknownIssuer"}, "read x")),
              HasSubstr("set ca_bundle"));
  EXPECT_EQ(
      MessageOf(ToStatus({STROBE_STORE_OTHER, 503,
                          "Generic S3 error: Error performing HEAD https://h/k in 1ms - Server "
                          "returned non-2xx status code: 503 Service Unavailable: "},
                         "look up x")),
      "cannot look up x: HTTP 503 Service Unavailable");
  const std::string endless(100'000, 'x');
  EXPECT_LT(MessageOf(ToStatus({STROBE_STORE_OTHER, 500, endless}, "read x")).size(), 1000u);
}

TEST(Redact, LeavesNoSecret) {
  for (const std::string secret :
       {"https://acc.blob.core.windows.net/c/k?sv=2022&sig=SECRET&se=1",
        "Authorization: Bearer SECRET", "X-Amz-Signature=SECRET", "client_secret=SECRET",
        "\"access_token\": \"SECRET\"", "<SecretAccessKey>SECRET</SecretAccessKey>",
        "SharedKey SECRET"}) {
    EXPECT_THAT(Redact(secret), Not(HasSubstr("SECRET"))) << secret;
  }
  EXPECT_EQ(Redact("AccessDenied: Access Denied."), "AccessDenied: Access Denied.");
}

}  // namespace
}  // namespace strobe::storage
