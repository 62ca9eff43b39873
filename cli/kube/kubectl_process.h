// Runs the kubectl that is in $PATH.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cli/kube/kubectl.h"

namespace strobe::cluster {

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
