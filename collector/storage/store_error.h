// What a store said, as one status that callers can act on and people can read. Pure.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace strobe {

struct StoreFailure {
  int code = 0;  // enum strobe_store_code of bridge.h, not OK.
  int http_status = 0;
  std::string message{};
};

// `doing` is "write plugins/profile/run/w.xplane.pb to s3://bucket/logs". The message carries the
// store's own code and words, without secrets.
absl::Status ToStatus(const StoreFailure& failure, std::string_view doing);

// Without signatures, keys and tokens, as they stand in URLs and in what stores answer.
std::string Redact(std::string_view text);

}  // namespace strobe
