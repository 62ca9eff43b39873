// Converts errors of stores and of files to statuses. Pure.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace strobe::storage {

struct StoreFailure {
  int code = 0;  // An enum strobe_store_code of bridge.h, not OK.
  int http_status = 0;
  std::string message{};
};

// `doing` describes the operation, such as "write plugins/profile/run/w.xplane.pb to
// s3://bucket/logs". The message contains the store's own code and text, without secrets.
absl::Status ToStatus(const StoreFailure& failure, std::string_view doing);

// Replaces signatures, keys and tokens, as they appear in URLs and in answers of stores.
std::string Redact(std::string_view text);

// Returns "cannot <doing> <path>: <the system's message>" with one of the codes in object_store.h,
// or with InvalidArgument if a name is too long. `error` is an errno.
absl::Status FileError(int error, std::string_view doing, std::string_view path);

}  // namespace strobe::storage
