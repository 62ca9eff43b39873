#include "cli/kube/kubectl.h"

#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::cluster {
namespace {

// The limit for one command. A request that may take longer sets --request-timeout.
constexpr Nanos kTimeout = std::chrono::minutes(2);

// What kubectl writes for the API server's reasons; see StatusReason in
// k8s.io/apimachinery/pkg/apis/meta/v1/types.go, and CheckErr in k8s.io/kubectl/pkg/cmd/util.
constexpr std::array<std::pair<std::string_view, absl::StatusCode>, 11> kReasons = {{
    {"(Forbidden)", absl::StatusCode::kPermissionDenied},
    {"(Unauthorized)", absl::StatusCode::kUnauthenticated},
    {"You must be logged in to the server", absl::StatusCode::kUnauthenticated},
    {"(NotFound)", absl::StatusCode::kNotFound},
    {"(AlreadyExists)", absl::StatusCode::kAlreadyExists},
    {"is invalid", absl::StatusCode::kInvalidArgument},
    {"(BadRequest)", absl::StatusCode::kInvalidArgument},
    {"denied the request", absl::StatusCode::kPermissionDenied},
    {"no matches for kind", absl::StatusCode::kFailedPrecondition},
    {"the server doesn't have a resource type", absl::StatusCode::kFailedPrecondition},
    {"does not exist", absl::StatusCode::kNotFound},  // A file.
}};

// Whether a line is one of kubectl's own log, such as "E1124 08:29:10.121163   13605
// memcache.go:265]
// ...". It repeats, for each try, what the last line says in plain words.
bool IsLogged(std::string_view line) {
  const auto digit = [&](std::size_t i) { return line[i] >= '0' && line[i] <= '9'; };
  return line.size() > 21 && (line[0] == 'E' || line[0] == 'W' || line[0] == 'I') && digit(1) &&
         digit(2) && digit(3) && digit(4) && line[5] == ' ' && line[8] == ':' && line[11] == ':';
}

// kubectl's own explanation of its failure.
std::string MessageIn(const std::string& err) {
  std::string plain;
  for (const std::string& line : Split(err, '\n')) {
    if (!IsLogged(line)) plain += line + "\n";
  }
  std::string_view message = ToStd(absl::StripAsciiWhitespace(ToAbsl(plain)));
  if (message.empty()) message = ToStd(absl::StripAsciiWhitespace(ToAbsl(err)));
  constexpr std::string_view kError = "error: ";  // Our own words say so.
  if (message.starts_with(kError)) message.remove_prefix(kError.size());
  return std::string(message);
}

}  // namespace

absl::Status StatusOf(const KubectlResult& result) {
  if (result.exit_code == 0) return absl::OkStatus();
  std::string message = MessageIn(result.err);
  if (message.empty()) message = StrCat("kubectl ended with exit code ", result.exit_code);
  for (const auto& [words, code] : kReasons) {
    if (Contains(message, words)) return {code, message};
  }
  return absl::UnavailableError(message);
}

absl::StatusOr<std::string> Output(Kubectl& kubectl, const std::vector<std::string>& arguments,
                                   const std::string& input) {
  ASSIGN_OR_RETURN(KubectlResult result, Complete(kubectl, arguments, input));
  return std::move(result.out);
}

absl::StatusOr<KubectlResult> Complete(Kubectl& kubectl, const std::vector<std::string>& arguments,
                                       const std::string& input) {
  ASSIGN_OR_RETURN(KubectlResult result, kubectl.Run(arguments, input, kTimeout));
  if (absl::Status status = StatusOf(result); !status.ok()) return status;
  return result;
}

}  // namespace strobe::cluster
