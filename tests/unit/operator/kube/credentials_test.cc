#include "operator/kube/credentials.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "tests/fakes/simulated_time.h"

namespace strobe::kube {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class CredentialsTest : public testing::Test {
 protected:
  CredentialsTest() { dir_ = mkdtemp(name_.data()); }
  ~CredentialsTest() override { std::filesystem::remove_all(dir_); }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name) << text;
    return dir_ + "/" + name;
  }
  absl::StatusOr<Credentials> Load(const std::string& user,
                                   const std::string& server = "https://1.2.3.4:6443") {
    return LoadKubeconfig(Write(
        "config",
        "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u, namespace: ns}}]\n"
        "clusters: [{name: k, cluster: {server: '" +
            server +
            "', certificate-authority: ca.crt}}]\n"
            "users: [{name: u, user: " +
            user + "}]\n"));
  }
  std::string name_ = "/tmp/strobe-credentials-XXXXXX";
  std::string dir_;
};

TEST_F(CredentialsTest, ReadsAKubeconfig) {
  const auto credentials = Load("{client-certificate-data: aGVsbG8=, client-key: key.pem}");
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  EXPECT_EQ(credentials->server, "https://1.2.3.4:6443");
  EXPECT_EQ(credentials->ns, "ns");
  EXPECT_EQ(credentials->ca.file, dir_ + "/ca.crt") << "relative to the kubeconfig";
  EXPECT_EQ(credentials->certificate.data, "hello");
}

TEST_F(CredentialsTest, SaysWhatItCannotUse) {
  EXPECT_THAT(std::string(Load("{exec: {command: x}}").status().message()), HasSubstr("exec"));
  EXPECT_THAT(std::string(Load("{token: t}", "http://1.2.3.4").status().message()),
              HasSubstr("plain http"));
  for (const char* field : {"as: bob", "as-groups: [team]", "username: u", "password: p"}) {
    EXPECT_THAT(std::string(Load(StrCat("{token: t, ", field, "}")).status().message()),
                HasSubstr(StrCat(
                    "field ", std::string_view(field).substr(0, std::string_view(field).find(':')),
                    " of a user is not supported")));
  }
  for (const char* field : {"proxy-url", "tls-server-name"}) {
    // The server's value ends, and another field begins.
    EXPECT_THAT(
        std::string(
            Load("{token: t}", StrCat("https://1.2.3.4', ", field, ": 'x")).status().message()),
        HasSubstr(StrCat("field ", field, " of a cluster is not supported")));
  }
  EXPECT_FALSE(LoadKubeconfig("/nowhere").ok());
  EXPECT_FALSE(LoadKubeconfig(Write("bad", "a: [")).ok());
  EXPECT_THAT(std::string(LoadKubeconfig(Write("none", "a: b")).status().message()),
              HasSubstr("current-context"));
}

TEST_F(CredentialsTest, SaysThatSeveralKubeconfigsAreNotMerged) {
  setenv("KUBECONFIG", "/a/config:/b/config", 1);
  const auto found = FindCredentials("");
  unsetenv("KUBECONFIG");
  EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << found.status();
  EXPECT_THAT(found.status().message(), testing::HasSubstr("--kubeconfig"));
}

TEST_F(CredentialsTest, FindsThePodsOwnServiceAccount) {
  setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
  setenv("KUBERNETES_SERVICE_PORT", "443", 1);
  unsetenv("KUBECONFIG");
  const auto credentials = FindCredentials("");
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  EXPECT_EQ(credentials->server, "https://[fd00::1]:443");
  EXPECT_THAT(credentials->token.file, HasSubstr("serviceaccount/token"));
  EXPECT_THAT(credentials->ca.file, HasSubstr("serviceaccount/ca.crt"));
  unsetenv("KUBERNETES_SERVICE_HOST");
}

TEST_F(CredentialsTest, ATokenIsReadAgainAndKeptWhenItsFileVanishes) {
  SimulatedTime time;
  const std::string file = Write("token", "one\n");
  TokenSource source(time, {file, ""});
  EXPECT_EQ(*source.Current(), "one");
  Write("token", "two");
  EXPECT_EQ(*source.Current(), "one") << "not read at every request";
  time.Advance(1min);
  EXPECT_EQ(*source.Current(), "two");
  std::filesystem::remove(file);
  time.Advance(1min);
  EXPECT_EQ(*source.Current(), "two");
}

}  // namespace
}  // namespace strobe::kube
