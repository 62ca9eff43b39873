#include "cli/kube/kubectl.h"

#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>

#include "common/base/ending_signals.h"

namespace strobe::cluster {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

// A shell stands for kubectl: what it is told to do follows "-c".
KubectlProcess Shell() {
  IgnoreBrokenPipes();  // As main does.
  return KubectlProcess({"-c"}, "sh");
}

TEST(KubectlProcess, PassesInputAndKeepsBothOutputs) {
  KubectlProcess shell = Shell();
  const std::string input(1 << 20, 'x');
  const auto result = shell.Run({"cat; echo told >&2; exit 3"}, input, 30s);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->out, input);
  EXPECT_EQ(result->err, "told\n");
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_TRUE(shell.Run({"exit 0"}, input, 30s).ok()) << "a child that does not read its input";
}

TEST(KubectlProcess, EndsAChildThatTakesTooLong) {
  const auto result = Shell().Run({"exec sleep 1000"}, "", 200ms);
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.status())) << result.status();
}

TEST(KubectlProcess, DoesNotWaitForWhatItsChildLeavesBehind) {
  const auto result = Shell().Run({"sleep 1000 & echo $!; exit 3"}, "", 60s);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 3);
  const int left = std::atoi(result->out.c_str());
  ASSERT_GT(left, 1);
  EXPECT_EQ(kill(left, SIGKILL), 0) << "it had not ended";
}

TEST(KubectlProcess, EndsAChildWhoseLineHasNoEnd) {
  const auto followed = Shell().Follow(
      {"exec cat /dev/zero"}, [](std::string_view) { return true; }, [] { return true; });
  EXPECT_TRUE(followed.ok()) << followed.status();
}

TEST(KubectlProcess, SaysThatKubectlIsMissing) {
  const auto result = KubectlProcess({}, "no-such-kubectl").Run({"get"}, "", 1s);
  EXPECT_TRUE(absl::IsNotFound(result.status()));
  EXPECT_THAT(result.status().message(), HasSubstr("is not in $PATH"));
}

TEST(KubectlProcess, FollowsLinesUntilItIsToldToStop) {
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view line) {
    lines.emplace_back(line);
    return lines.size() < 2;
  };
  const auto stopped =
      Shell().Follow({"echo a; echo b; echo c; exec sleep 1000"}, keep, [] { return true; });
  EXPECT_TRUE(stopped.ok());
  EXPECT_THAT(lines, ElementsAre("a", "b"));
  int ticks = 0;
  const auto ticked = Shell().Follow({"exec sleep 1000"}, keep, [&] { return ++ticks < 3; });
  EXPECT_TRUE(ticked.ok());
  const auto failed = Shell().Follow({"echo no >&2; exit 4"}, keep, [] { return true; });
  EXPECT_EQ(failed->exit_code, 4);
  EXPECT_EQ(failed->err, "no\n");
}

TEST(StatusOf, FollowsWhatTheApiServerSaid) {
  const auto code = [](const char* text) { return StatusOf({1, "", text}).code(); };
  EXPECT_EQ(StatusOf({0, "", "Warning: w"}).code(), absl::StatusCode::kOk);
  EXPECT_EQ(code("Error from server (Forbidden): x"), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code("Error from server (NotFound): x"), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("The ProfileRequest \"x\" is invalid: spec.duration"),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("dial tcp: connection refused"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code("error: the path \"/x\" does not exist"), absl::StatusCode::kNotFound);
  EXPECT_THAT(StatusOf({7, "", ""}).message(), HasSubstr("exit code 7"));
}

TEST(StatusOf, LeavesOutKubectlsLog) {
  const std::string logged =
      "E1124 08:29:10.121163   13605 memcache.go:265] \"Unhandled Error\" err=\"refused\"\n";
  EXPECT_EQ(StatusOf({1, "", logged + logged + "error: no server\n"}).message(), "no server");
  EXPECT_THAT(StatusOf({1, "", logged}).message(), HasSubstr("refused")) << "it is all there is";
  EXPECT_EQ(StatusOf({1, "", "Error from server (NotFound): x"}).message(),
            "Error from server (NotFound): x");
}

TEST(StatusOf, AMissingClusterIsNamedInsteadOfAFlagOfKubectl) {
  EXPECT_EQ(
      StatusOf({1, "",
                "error: error validating \"STDIN\": error validating data: failed to download "
                "openapi: Get \"http://x/\": dial tcp 127.0.0.1:8080: connect: connection "
                "refused; if you choose to ignore these errors, turn validation off with "
                "--validate=false\n"})
          .message(),
      "failed to download openapi: Get \"http://x/\": dial tcp 127.0.0.1:8080: connect: "
      "connection refused; --context, --kubeconfig or $KUBECONFIG choose the cluster");
}

}  // namespace
}  // namespace strobe::cluster
