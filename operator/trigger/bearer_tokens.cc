#include "operator/trigger/bearer_tokens.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "common/base/files.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::trigger {
namespace {

constexpr char kScheme[] = "Bearer ";

// Tokens are compared by their digests, which all have the same length.
std::string DigestOf(std::string_view token) { return HmacSha256("strobe bearer token", token); }

absl::StatusOr<std::vector<std::string>> ReadDigests(const std::vector<std::string>& files) {
  std::vector<std::string> digests;
  for (const std::string& file : files) {
    const absl::StatusOr<std::string> text = ReadTextFile(file);
    if (!text.ok()) {
      std::error_code error;
      // A token whose file is gone is withdrawn. One that cannot be read now, as without a free
      // descriptor, stays: Alertmanager does not send again what was refused.
      if (!std::filesystem::exists(file, error) && !error) continue;
      return text.status();
    }
    const std::string token(absl::StripAsciiWhitespace(*text));
    if (token.size() < BearerTokens::kMinBytes)
      return absl::InvalidArgumentError(StrCat(file, " holds a token of ", token.size(),
                                               " bytes; it needs ", BearerTokens::kMinBytes,
                                               " or more"));
    if (!std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7f; }))
      return absl::InvalidArgumentError(
          StrCat(file, " holds a token with characters that a header cannot carry"));
    digests.push_back(DigestOf(token));
  }
  return digests;
}

}  // namespace

absl::StatusOr<std::unique_ptr<BearerTokens>> BearerTokens::Read(std::vector<std::string> files) {
  std::unique_ptr<BearerTokens> tokens(new BearerTokens(std::move(files)));
  RETURN_IF_ERROR(tokens->ReadAgain());
  MutexLock lock(&tokens->mutex_);
  if (tokens->digests_.empty())
    return absl::NotFoundError(
        StrCat("there is no bearer token in ", Join(tokens->files_, " or ")));
  return tokens;
}

absl::Status BearerTokens::ReadAgain() {
  ASSIGN_OR_RETURN(std::vector<std::string> digests, ReadDigests(files_));
  MutexLock lock(&mutex_);
  digests_ = std::move(digests);
  return absl::OkStatus();
}

bool BearerTokens::Accept(const std::string& authorization) const {
  absl::string_view token = authorization;
  if (!absl::StartsWithIgnoreCase(token, kScheme)) return false;
  token.remove_prefix(sizeof kScheme - 1);
  const std::string digest = DigestOf(ToStd(absl::StripAsciiWhitespace(token)));
  bool accepted = false;
  MutexLock lock(&mutex_);
  for (const std::string& known : digests_) accepted |= EqualInConstantTime(known, digest);
  return accepted;
}

}  // namespace strobe::trigger
