#include "operator/config/config.h"

#include <gmock/gmock.h>

#include "tests/fakes/unit_dir.h"

namespace strobe::config {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

std::string Complaint(std::string_view text) {
  return std::string(ParseConfig(text, "c.yaml").status().message());
}

TEST(ParseConfig, ReadsAllKeys) {
  const auto config = ParseConfig(
      "http: {listen: '127.0.0.1:0'}\nwatch: {namespace: team, timeout: 30s}\n"
      "maxConcurrentReconciles: 8\n"
      "insecurePlaintext: true\nlease: {enabled: false, namespace: n, name: x, duration: 20s, "
      "renewDeadline: 12s, retryPeriod: 3s}\n"
      "log: {level: debug, format: json}\n",
      "c.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->watch_timeout, 30s);
  EXPECT_EQ(config->max_concurrent_reconciles, 8);
  EXPECT_FALSE(config->lease.enabled);
  EXPECT_EQ(config->lease.retry_period, 3s);
  EXPECT_EQ(config->log_format, "json");
}

TEST(ParseConfig, ReadsWhatEverySidecarGets) {
  const auto config = ParseConfig(
      "injection:\n"
      "  viewerImage: r/strobe-viewer:1\n"
      "  metricsPort: 9100\n"
      "  ephemeralStorage: 3Gi\n"
      "  alwaysLimitCpu: true\n"
      "  disable: [keep-cupti, server]\n"
      "  imagePullSecrets: [registry]\n"
      "  env:\n"
      "  - {name: HTTPS_PROXY, value: 'http://proxy:3128'}\n"
      "  - {name: KEY, valueFrom: {secretKeyRef: {name: keys, key: id, optional: false}}}\n"
      "  - {name: REGION, valueFrom: {configMapKeyRef: {name: places, key: region}}}\n"
      "  - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}\n"
      "  storage: {secret: traces, config: {secret: store}, caBundle: {configMap: ca, key: "
      "b.pem}}\n",
      "c.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  const InjectionConfig& injection = config->injection;
  EXPECT_EQ(injection.viewer_image, "r/strobe-viewer:1");
  EXPECT_EQ(injection.metrics_port, 9100);
  EXPECT_EQ(injection.ephemeral_storage, "3Gi");
  EXPECT_TRUE(injection.always_limit_cpu);
  EXPECT_FALSE(ParseConfig("", "c.yaml")->injection.always_limit_cpu);
  EXPECT_THAT(injection.disable, testing::ElementsAre("keep-cupti", "server"));
  EXPECT_THAT(injection.image_pull_secrets, testing::ElementsAre("registry"));
  ASSERT_EQ(injection.env.size(), 4u);
  EXPECT_EQ(injection.env[0].value, "http://proxy:3128");
  EXPECT_EQ(injection.env[1].from.secret, "keys");
  EXPECT_EQ(injection.env[1].from.key, "id");
  EXPECT_EQ(injection.env[2].from.config_map, "places");
  EXPECT_EQ(injection.env[3].field, "spec.nodeName");
  EXPECT_EQ(injection.storage_secret, "traces");
  EXPECT_EQ(injection.storage_config.key, "storage.yaml");
  EXPECT_EQ(injection.storage_ca.config_map, "ca");
  EXPECT_EQ(injection.storage_ca.key, "b.pem");
}

// Whoever may post alerts may start captures.
TEST(ParseConfig, AReceiverOfAlertsDemandsSomething) {
  const auto config = ParseConfig(
      "alertReceiver: {listen: ':1', tokenFiles: [/a, /b], clientAuthority: /ca, clientNames: [x], "
      "certificate: /c, key: /k}",
      "c.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->alert_receiver.token_files, testing::ElementsAre("/a", "/b"));
  EXPECT_EQ(config->alert_receiver.client_authority, "/ca");
  EXPECT_THAT(config->alert_receiver.client_names, testing::ElementsAre("x"));
  EXPECT_EQ(config->alert_receiver.certificate + config->alert_receiver.key, "/c/k");
  for (const auto& [odd, complaint] :
       {std::pair("listen: ':1'",
                  "needs alertReceiver.tokenFiles or alertReceiver.clientAuthority"),
        std::pair("listen: ':1', tokenFiles: []", "needs alertReceiver.tokenFiles"),
        std::pair("listen: ':1', tokenFiles: [/a, /b, /c]", "more than two files"),
        std::pair("listen: ':1', tokenFiles: [/a], certificate: /c", "go together"),
        std::pair("listen: ':1', tokenFiles: [/a], clientNames: [x]", "needs alertReceiver.client"),
        std::pair("tokens: [/a]", "tokens")})
    EXPECT_THAT(Complaint(std::string("alertReceiver: {") + odd + "}"), HasSubstr(complaint));
}

TEST(ParseConfig, AnEmptyFileMeansTheDefaults) { EXPECT_TRUE(ParseConfig("", "c.yaml").ok()); }

// The reference page shows this file.
TEST(ParseConfig, TheWrittenDefaultsAreTheDefaults) {
  const auto config = LoadConfig(UnitDir() + "/../../operator/config/defaults.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(*config == OperatorConfig());
}

TEST(ParseConfig, PointsAtWhatIsWrong) {
  EXPECT_THAT(Complaint("maxConcurrentReconciles: 2\nworker: 3\n"),
              HasSubstr("c.yaml:2:1: unknown key worker; the known keys are"));
  EXPECT_THAT(Complaint("lease:\n  durration: 3s\n"),
              HasSubstr("c.yaml:2:3: unknown key lease.durration"));
  EXPECT_THAT(Complaint("lease: {duration: soon}\n"), HasSubstr("c.yaml:1:"));
  EXPECT_THAT(Complaint("maxConcurrentReconciles: many\n"),
              HasSubstr("maxConcurrentReconciles: must be a whole number"));
  EXPECT_THAT(Complaint("log: {level: loud}\n"), HasSubstr("one of debug, info"));
  EXPECT_THAT(Complaint("maxConcurrentReconciles: 0\n"), HasSubstr("1 to 64"));
  EXPECT_THAT(Complaint("a: [\n"), HasSubstr("c.yaml:"));
  EXPECT_THAT(Complaint("- a\n"), HasSubstr("must be a map"));
  EXPECT_THAT(Complaint("injection: {memory: lots}\n"), HasSubstr("injection.memory"));
  EXPECT_THAT(Complaint("injection: {memory: 3Gi}\n"), HasSubstr("at most injection.memoryLimit"));
  EXPECT_THAT(Complaint("injection: {metricsPort: 0}\n"), HasSubstr("injection.metricsPort"));
  EXPECT_THAT(Complaint("injection: {ephemeralStorage: lots}\n"), HasSubstr("ephemeralStorage"));
  EXPECT_THAT(Complaint("injection: {disable: [servers]}\n"),
              HasSubstr("injection.disable: \"servers\" is none of agent, collectives, devices"));
  EXPECT_THAT(Complaint("injection: {imagePullSecrets: [A b]}\n"),
              HasSubstr("\"A b\" cannot be a Secret's name"));
  EXPECT_THAT(Complaint("injection: {storage: {caBundle: {secret: a, configMap: b}}}\n"),
              HasSubstr("injection.storage.caBundle must name a Secret or a ConfigMap, not both"));
  EXPECT_THAT(Complaint("injection: {storage: {config: {secret: a, key: ../x}}}\n"),
              HasSubstr("injection.storage.config.key"));
  EXPECT_THAT(Complaint("injection:\n  env:\n  - {title: X}\n"),
              HasSubstr("c.yaml:3:6: unknown key injection.env.title"));
  EXPECT_THAT(Complaint("injection: {env: [{value: x}]}\n"), HasSubstr("needs the name"));
  EXPECT_THAT(Complaint("injection: {env: [{name: STROBE_ROOTS, value: x}]}\n"),
              HasSubstr("STROBE_ROOTS is set by Strobe itself"));
  EXPECT_THAT(Complaint("injection: {env: [{name: X, value: y, valueFrom: {fieldRef: {fieldPath: "
                        "spec.nodeName}}}]}\n"),
              HasSubstr("X has more than one value"));
  EXPECT_THAT(Complaint("webhook: {clientNames: [x]}\n"), HasSubstr("webhook.clientAuthority"));
  EXPECT_FALSE(LoadConfig("/nowhere.yaml").ok());
}

}  // namespace
}  // namespace strobe::config
