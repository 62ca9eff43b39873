#include "operator/config/config.h"

#include <gmock/gmock.h>

namespace strobe {
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

TEST(ParseConfig, AnEmptyFileMeansTheDefaults) { EXPECT_TRUE(ParseConfig("", "c.yaml").ok()); }

TEST(ParseConfig, PointsAtWhatIsWrong) {
  EXPECT_THAT(Complaint("maxConcurrentReconciles: 2\nworker: 3\n"),
              HasSubstr("c.yaml:2:1: unknown key worker; known here are"));
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
  EXPECT_THAT(Complaint("webhook: {clientNames: [x]}\n"), HasSubstr("webhook.clientAuthority"));
  EXPECT_FALSE(LoadConfig("/nowhere.yaml").ok());
}

}  // namespace
}  // namespace strobe
