#include "viewer/service/service_config.h"

#include <gmock/gmock.h>

namespace strobe::viewer {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kLogdirs[] = "logdirs: [{url: 'gs://b/ml', namespace: ml}]\n";

std::string Complaint(const std::string& text) {
  const auto config = ParseServeConfig(text, "s.yaml");
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(config.status().message());
}

TEST(ParseServeConfig, ReadsAllKeys) {
  const auto config = ParseServeConfig(
      "logdirs:\n"
      "- {url: 'gs://b/ml', namespace: ml}\n"
      "- {url: /logs, namespace: ml, name: old}\n"
      "listen: '[::]:8443'\n"
      "health: {listen: '[::]:8082'}\n"
      "identity: {userHeader: X-User, groupsHeader: X-Groups, userPrefix: 'oidc:', groupsPrefix: "
      "'g:'}\n"
      "tls: {certificate: c, key: k, clientAuthority: a, clientNames: [proxy]}\n"
      "hosts: [strobe.example.com]\n"
      "cache: {directory: /cache, maxBytes: 2Gi}\n"
      "accessCache: 10s\n"
      "storageConfig: /etc/storage.yaml\n"
      "openRuns: 4\n"
      "log: {level: debug, format: json}\n",
      "s.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->logdirs.size(), 2u);
  EXPECT_EQ(config->logdirs[0].name, "ml") << "the namespace";
  EXPECT_EQ(config->logdirs[1].name, "old");
  EXPECT_EQ(config->health_listen, "[::]:8082");
  EXPECT_EQ(config->identity.user, "X-User");
  EXPECT_EQ(config->identity.groups_prefix, "g:");
  EXPECT_THAT(config->tls.client_names, ElementsAre("proxy"));
  EXPECT_THAT(config->hosts, ElementsAre("strobe.example.com"));
  EXPECT_EQ(config->cache_bytes, std::uint64_t{2} << 30);
  EXPECT_EQ(config->access_cache, 10s);
  EXPECT_EQ(config->open_runs, 4);
  EXPECT_EQ(config->log_format, "json");
}

TEST(ParseServeConfig, TellsWhereAnUnknownKeyIs) {
  EXPECT_EQ(Complaint("logdirs:\n- {url: /l, namespace: n, nick: x}\n"),
            "s.yaml:2:27: unknown key logdirs.nick; the known keys are name, namespace, url");
  EXPECT_THAT(Complaint(std::string(kLogdirs) + "hosst: []\n"),
              HasSubstr("s.yaml:2:1: unknown key hosst"));
  EXPECT_THAT(Complaint("logdirs: [\n"), HasSubstr("s.yaml:2:"));
  EXPECT_THAT(Complaint(std::string(kLogdirs) + "cache: {maxBytes: many}\n"),
              HasSubstr("s.yaml:2:19: cache.maxBytes: must be a quantity"));
}

TEST(ParseServeConfig, ALogdirBelongsToOneNamespace) {
  EXPECT_THAT(Complaint(""), HasSubstr("logdirs must list"));
  EXPECT_THAT(Complaint("logdirs: [{namespace: ml}]"), HasSubstr("needs a url"));
  EXPECT_THAT(Complaint("logdirs: [{url: /l}]"), HasSubstr("needs the namespace"));
  EXPECT_THAT(Complaint("logdirs: [{url: /l, namespace: A}]"), HasSubstr("needs the namespace"));
  EXPECT_THAT(Complaint("logdirs: [{url: /l, namespace: a, name: a/b}]"), HasSubstr("be a name"));
  EXPECT_THAT(Complaint("logdirs: [{url: /l, namespace: a}, {url: /m, namespace: a}]"),
              HasSubstr("two are named a"));
  EXPECT_THAT(Complaint("logdirs: [{url: /l, namespace: a}, {url: /l, namespace: b}]"),
              HasSubstr("listed twice"));
}

TEST(ParseServeConfig, OnlyTheProxyMayBeAbleToConnect) {
  const std::string listen = std::string(kLogdirs) + "listen: '0.0.0.0:80'\n";
  EXPECT_THAT(Complaint(listen), HasSubstr("listen on 127.0.0.1 with the authenticating proxy"));
  EXPECT_THAT(Complaint(listen + "tls: {certificate: c, key: k}\n"),
              HasSubstr("tls.clientAuthority"));
  EXPECT_THAT(Complaint(listen + "tls: {certificate: c, key: k, clientAuthority: a}\n"),
              HasSubstr("go together"));
  EXPECT_THAT(Complaint(listen + "tls: {clientAuthority: a, clientNames: [p]}\n"),
              HasSubstr("needs tls.certificate"));
  EXPECT_THAT(Complaint(std::string(kLogdirs) + "tls: {certificate: c}\n"),
              HasSubstr("go together"));
  for (const char* here : {"127.0.0.1:80", "localhost:80", "[::1]:80"})
    EXPECT_TRUE(ParseServeConfig(std::string(kLogdirs) + "listen: '" + here + "'\n", "").ok());
}

TEST(ParseServeConfig, RefusesValuesThatCannotWork) {
  for (const char* wrong :
       {"accessCache: 0s", "accessCache: 6m", "openRuns: 0", "identity: {userHeader: ''}",
        "identity: {userHeader: 'a b'}", "identity: {groupsHeader: X-Forwarded-User}"})
    Complaint(std::string(kLogdirs) + wrong + "\n");
}

}  // namespace
}  // namespace strobe::viewer
