// How the commands for clusters reach the API server: by the user's own kubectl, as a child
// process. kubectl knows kubeconfigs, credential plugins, proxies and impersonation. Users of
// `kubectl strobe` have it, so that no second client of the API is needed here.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/clock.h"

namespace strobe::cluster {

struct KubectlResult {
  int exit_code = 0;
  std::string out{}, err{};
};

class Kubectl {
 public:
  virtual ~Kubectl() = default;

  // Runs kubectl to its end, with `input` as its standard input if that is not empty. An exit code
  // other than 0 is no error here. Errors: kubectl cannot be run (NotFound), it did not end in time
  // (DeadlineExceeded), it wrote too much (ResourceExhausted).
  virtual absl::StatusOr<KubectlResult> Run(const std::vector<std::string>& arguments,
                                            const std::string& input, Nanos timeout) = 0;

  // Runs kubectl and passes each line that it writes to `line`, without its end. Calls `tick` a few
  // times a second. Ends kubectl when one of them returns false. The result has no `out`.
  using Line = std::function<bool(std::string_view)>;
  using Tick = std::function<bool()>;
  virtual absl::StatusOr<KubectlResult> Follow(const std::vector<std::string>& arguments,
                                               const Line& line, const Tick& tick) = 0;
};

// The status of a kubectl that ended with an error: what it wrote to stderr, with the code that
// follows from it (PermissionDenied, Unauthenticated, NotFound, AlreadyExists, InvalidArgument,
// FailedPrecondition, or else Unavailable). OK for the exit code 0.
absl::Status StatusOf(const KubectlResult& result);

// Runs kubectl and returns what it wrote, or StatusOf its end. It has two minutes; a command that
// takes longer sets kubectl's --request-timeout.
absl::StatusOr<KubectlResult> Complete(Kubectl& kubectl, const std::vector<std::string>& arguments,
                                       const std::string& input = "");
// Like Complete, but returns only what it wrote to stdout.
absl::StatusOr<std::string> Output(Kubectl& kubectl, const std::vector<std::string>& arguments,
                                   const std::string& input = "");

// `common` are arguments for every call, such as --namespace. The child belongs to the terminal's
// foreground processes, because a credential plugin may ask the user; so it gets a Ctrl-C as well.
class KubectlProcess final : public Kubectl {
 public:
  explicit KubectlProcess(std::vector<std::string> common, std::string program = "kubectl")
      : common_(std::move(common)), program_(std::move(program)) {}

  absl::StatusOr<KubectlResult> Run(const std::vector<std::string>& arguments,
                                    const std::string& input, Nanos timeout) override;
  absl::StatusOr<KubectlResult> Follow(const std::vector<std::string>& arguments, const Line& line,
                                       const Tick& tick) override;

 private:
  const std::vector<std::string> common_;
  const std::string program_;
};

}  // namespace strobe::cluster
