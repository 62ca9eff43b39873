// A kubectl whose answers a test writes down.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "cli/kube/kubectl.h"
#include "common/base/strings.h"

namespace strobe::cluster {

class FakeKubectl final : public Kubectl {
 public:
  absl::StatusOr<KubectlResult> Run(const std::vector<std::string>& arguments, const std::string&,
                                    Nanos) override {
    asked.push_back(Join(arguments, " "));
    const auto found = answers.find(asked.back());
    if (found == answers.end()) return KubectlResult{1, "", "Error from server (Forbidden): no"};
    return KubectlResult{0, found->second, ""};
  }
  absl::StatusOr<KubectlResult> Follow(const std::vector<std::string>& arguments, const Line& line,
                                       const Tick& tick) override {
    asked.push_back(Join(arguments, " "));
    if (streams.empty()) return KubectlResult{1, "", "Unable to connect to the server"};
    const KubectlResult stream = streams.front();
    streams.pop_front();
    for (const std::string& each : Split(stream.out, '\n')) {
      if (!each.empty() && (!line(each) || !tick())) return KubectlResult{};
    }
    return KubectlResult{stream.exit_code, "", stream.err};
  }

  std::map<std::string, std::string> answers{};  // By the arguments.
  std::deque<KubectlResult> streams{};           // What each Follow writes, and how it ends.
  std::vector<std::string> asked{};
};

}  // namespace strobe::cluster
