// The bearer tokens that a server accepts, from files that are read again while it runs: two at a
// time, so that a token can be replaced without a moment in which neither is accepted.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/mutex.h"

namespace strobe::trigger {

// Safe for concurrent use.
class BearerTokens {
 public:
  static constexpr std::size_t kMinBytes = 16;  // A shorter token could be guessed.

  // Files that do not exist have no token. Fails if one holds a token that is too short or cannot
  // be sent in a header, or if none holds a token.
  static absl::StatusOr<std::unique_ptr<BearerTokens>> Read(std::vector<std::string> files);
  BearerTokens(const BearerTokens&) = delete;
  BearerTokens& operator=(const BearerTokens&) = delete;

  // Takes over what has changed. A token whose file is gone is refused from now on. If a file holds
  // a token that cannot be used, all tokens stay as they were, and the error says so.
  absl::Status ReadAgain();

  // Whether the value of an Authorization header carries one of the tokens. Takes equally long for
  // a token that is nearly right as for any other wrong one.
  bool Accept(const std::string& authorization) const;

 private:
  explicit BearerTokens(std::vector<std::string> files) : files_(std::move(files)) {}

  const std::vector<std::string> files_;
  mutable Mutex mutex_;
  std::vector<std::string> digests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strobe::trigger
