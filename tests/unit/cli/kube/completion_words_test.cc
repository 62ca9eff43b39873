#include "cli/kube/completion_words.h"

#include <gmock/gmock.h>

#include "tests/fakes/fake_kubectl.h"

namespace strobe::cluster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::map<std::string, CommandWords> kCommands = {
    {"capture", {CommandWords::Takes::kTargets, {"--duration"}, {"--quiet"}}},
    {"cancel", {CommandWords::Takes::kRequestNames, {}, {}}},
    {"ls", {}}};

TEST(Complete, CommandsFlagsAndNames) {
  FakeKubectl kubectl;
  kubectl.answers["get job --output=name"] = "job.batch/llm\njob.batch/other\n";
  kubectl.answers["get profilerequests.strobe.dev --output=name"] = "profilerequest.strobe.dev/x\n";
  kubectl.answers["get namespaces --output=name"] = "namespace/ml\nnamespace/web\n";
  const auto words = [&](const std::vector<std::string>& line) {
    return Complete(kCommands, line, kubectl).words;
  };
  EXPECT_THAT(words({"ca"}), ElementsAre("cancel", "capture"));
  EXPECT_THAT(words({"capture", "--d"}), ElementsAre("--duration"));
  EXPECT_THAT(words({"capture", "job/l"}), ElementsAre("job/llm"));
  EXPECT_THAT(words({"capture", "--quiet", "job/l"}), ElementsAre("job/llm"));
  EXPECT_THAT(words({"capture", "--duration", ""}), IsEmpty()) << "a value that nobody knows";
  EXPECT_THAT(words({"capture", "-n", "m"}), ElementsAre("ml"));
  EXPECT_THAT(words({"-n", "ml", "cancel", ""}), ElementsAre("x"));
  EXPECT_THAT(words({"ls", ""}), IsEmpty());
  EXPECT_THAT(words({"capture", "pod/"}), IsEmpty()) << "kubectl refuses";
  EXPECT_TRUE(Complete(kCommands, {"capture", "jobs"}, kubectl).more_follows);
}

TEST(ConnectionArguments, ArePassedToKubectl) {
  EXPECT_THAT(ConnectionArguments({"get", "-n", "ml", "--context=a", "--kubeconfig", "k", ""}),
              ElementsAre("--namespace=ml", "--context=a", "--kubeconfig=k"));
  EXPECT_THAT(ConnectionArguments({"get", "-n", "m"}), IsEmpty()) << "still being written";
}

TEST(CompletionText, EndsWithCobrasDirective) {
  EXPECT_EQ(CompletionText({{"a", "b"}, false}), "a\nb\n:4\n");
  EXPECT_EQ(CompletionText({{"job/"}, true}), "job/\n:6\n");
}

}  // namespace
}  // namespace strobe::cluster
