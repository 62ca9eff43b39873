#include "operator/trigger/alert_payload.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::trigger {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

Json OneAlert(const std::string& job = "train") {
  return {{"status", "firing"},
          {"labels", {{"alertname", "SlowSteps"}, {"namespace", "ml"}, {"job", job}}},
          {"annotations", {{"summary", "steps are slow"}}},
          {"startsAt", "2026-11-24T12:00:00.5+02:00"},
          {"endsAt", "0001-01-01T00:00:00Z"},
          {"generatorURL", "http://prometheus/graph?g0.expr=up"},
          {"fingerprint", "3f1c0a2b9d8e7f60"}};
}

Json Post(Json alerts) {
  return {{"version", "4"},
          {"groupKey", "{}:{alertname=\"SlowSteps\"}"},
          {"truncatedAlerts", 0},
          {"status", "firing"},
          {"receiver", "strobe"},
          {"groupLabels", {{"alerts", {{"status", 1}}}}},  // Names of fields in what is not read.
          {"commonLabels", Json::object()},
          {"commonAnnotations", Json::object()},
          {"externalURL", "http://alertmanager:9093"},
          {"alerts", std::move(alerts)}};
}

std::string Complaint(const Json& post) { return MessageOf(ParseAlerts(post.dump()).status()); }

TEST(ParseAlerts, ReadsWhatAlertmanagerPosts) {
  Json resolved = OneAlert("other");
  resolved["status"] = "resolved";
  resolved["annotations"] = nullptr;
  Json post = Post({OneAlert(), resolved});
  post["truncatedAlerts"] = 7;
  const auto payload = ParseAlerts(post.dump());
  ASSERT_TRUE(payload.ok()) << payload.status();
  EXPECT_EQ(payload->truncated, 7u);
  EXPECT_EQ(payload->invalid + payload->too_many + payload->cut, 0u);
  ASSERT_EQ(payload->alerts.size(), 2u);
  const Alert& first = payload->alerts[0];
  EXPECT_TRUE(first.firing);
  EXPECT_EQ(first.fingerprint, "3f1c0a2b9d8e7f60");
  EXPECT_THAT(first.labels, ElementsAre(Pair("alertname", "SlowSteps"), Pair("job", "train"),
                                        Pair("namespace", "ml")));
  EXPECT_THAT(first.annotations, ElementsAre(Pair("summary", "steps are slow")));
  EXPECT_EQ(FormatRfc3339(first.starts, 1), "2026-11-24T10:00:00.5Z");
  EXPECT_FALSE(payload->alerts[1].firing);
  EXPECT_TRUE(payload->alerts[1].annotations.empty()) << "nothing of the alert before";
}

TEST(ParseAlerts, APostMayHaveNoAlerts) {
  for (const Json& none : {Json::array(), Json()}) {
    const auto payload = ParseAlerts(Post(none).dump());
    ASSERT_TRUE(payload.ok()) << payload.status();
    EXPECT_TRUE(payload->alerts.empty());
  }
}

TEST(ParseAlerts, RefusesWhatIsNoPayloadAndSaysWhy) {
  const auto complaint = [](const std::string& text) {
    return MessageOf(ParseAlerts(text).status());
  };
  EXPECT_THAT(complaint(""), HasSubstr("not JSON"));
  EXPECT_THAT(complaint("{\"version\":"), HasSubstr("not JSON at byte 12"));
  EXPECT_THAT(complaint(Post(Json::array({OneAlert()})).dump() + "x"), HasSubstr("not JSON"));
  EXPECT_THAT(complaint("{\"version\":\"\xff\"}"), HasSubstr("not JSON")) << "invalid UTF-8";
  for (const char* text : {"[]", "\"4\"", "7", "null", "true", "[{\"version\":\"4\"}]"})
    EXPECT_EQ(complaint(text), "the body is not a JSON object") << text;
  EXPECT_THAT(complaint("{}"), HasSubstr("version is missing"));
  EXPECT_THAT(complaint(R"({"version":"1","alerts":[]})"), HasSubstr(R"(version is "1")"));
  EXPECT_EQ(complaint(R"({"version":"4"})"), "alerts is missing");
  EXPECT_EQ(complaint(R"({"version":4,"alerts":[]})"), "version is not a string");
  EXPECT_EQ(complaint(R"({"version":["4"],"alerts":[]})"), "version is not a string");
}

TEST(ParseAlerts, NamesTheFieldOfAWrongType) {
  const auto with = [](const char* field, Json value) {
    Json alert = OneAlert();
    alert[field] = std::move(value);
    return Complaint(Post({OneAlert(), alert}));
  };
  EXPECT_EQ(with("labels", 1), "alerts[1].labels is not an object");
  EXPECT_EQ(with("labels", Json::array({"x"})), "alerts[1].labels is not an object");
  EXPECT_EQ(with("status", Json::object()), "alerts[1].status is not a string");
  EXPECT_EQ(with("fingerprint", 7), "alerts[1].fingerprint is not a string");
  EXPECT_EQ(with("startsAt", true), "alerts[1].startsAt is not a string");
  EXPECT_EQ(with("labels", {{"pod", 1}}),
            "alerts[1].labels has a value that is not a string: \"pod\"");
  EXPECT_EQ(with("annotations", {{"a", {{"b", "c"}}}}),
            "alerts[1].annotations has a value that is not a string: \"a\"");
  EXPECT_EQ(with("labels", {{"pod", nullptr}}),
            "alerts[1].labels has a value that is not a string: \"pod\"");
  EXPECT_EQ(Complaint(Post({7})), "alerts[0] is not an object");
  EXPECT_EQ(Complaint(Post(Json::array({Json::array()}))), "alerts[0] is not an object");
  EXPECT_EQ(Complaint(Post(Json::object())), "alerts is not a list");
  Json post = Post(Json::array());
  for (const Json& odd : {Json(-1), Json("3"), Json(1.5), Json::array()}) {
    post["truncatedAlerts"] = odd;
    EXPECT_THAT(Complaint(post), HasSubstr("truncatedAlerts is not a whole number"));
  }
}

TEST(ParseAlerts, LeavesOutInvalidAlertsOnly) {
  const std::vector<std::pair<Json, const char*>> odd = {
      {{{"fingerprint", nullptr}}, "fingerprint is missing"},
      {{{"fingerprint", "../secret"}}, "fingerprint is missing or invalid"},
      {{{"fingerprint", std::string(65, 'a')}}, "fingerprint is missing or invalid"},
      {{{"status", "pending"}}, "neither firing nor resolved"},
      {{{"startsAt", "yesterday"}}, "startsAt"},
      {{{"startsAt", "1969-12-31T23:59:59Z"}}, "startsAt"},
      {{{"labels", {{"namespace", std::string(513, 'x')}}}}, "\"namespace\" has more than 512"},
      {{{"labels", {{std::string(257, 'x'), "y"}}}}, "the name of a label"},
      {{{"labels", {{"", "y"}}}}, "the name of a label"},
  };
  for (const auto& [change, why] : odd) {
    Json alert = OneAlert();
    alert.update(change);
    const auto payload = ParseAlerts(Post({OneAlert("a"), alert, OneAlert("b")}).dump());
    ASSERT_TRUE(payload.ok()) << payload.status();
    EXPECT_EQ(payload->invalid, 1u) << change;
    EXPECT_THAT(payload->why_invalid, HasSubstr(why));
    EXPECT_THAT(payload->why_invalid, HasSubstr("alerts[1]: "));
    ASSERT_EQ(payload->alerts.size(), 2u);
    EXPECT_EQ(payload->alerts[1].labels.at("job"), "b");
    EXPECT_EQ(payload->alerts[1].labels.size(), 3u) << "nothing of the alert before";
  }
}

TEST(ParseAlerts, CountsLabelsUpToTheirBound) {
  Json alert = OneAlert();
  for (std::size_t i = alert["labels"].size(); i < kMaxAlertLabels; ++i)
    alert["labels"]["l" + std::to_string(i)] = std::string(kMaxAlertValueBytes, 'v');
  const auto most = ParseAlerts(Post(Json::array({alert})).dump());
  ASSERT_TRUE(most.ok());
  ASSERT_EQ(most->alerts.size(), 1u) << most->why_invalid;
  EXPECT_EQ(most->alerts[0].labels.size(), kMaxAlertLabels);
  alert["labels"]["more"] = "x";
  EXPECT_THAT(ParseAlerts(Post(Json::array({alert})).dump())->why_invalid,
              HasSubstr("more than 64 labels"));
}

TEST(ParseAlerts, ShortensAnnotations) {
  Json alert = OneAlert();
  alert["annotations"] = Json::object();
  for (int i = 0; i < 70; ++i) alert["annotations"]["a" + std::to_string(i)] = "x";
  alert["annotations"]["a0"] = std::string(511, 'x') + "\u00e9";  // Its bytes are not separated.
  alert["annotations"][std::string(300, 'n')] = "x";
  const auto payload = ParseAlerts(Post(Json::array({alert})).dump());
  ASSERT_TRUE(payload.ok());
  ASSERT_EQ(payload->alerts.size(), 1u);
  EXPECT_EQ(payload->alerts[0].annotations.size(), kMaxAlertLabels);
  EXPECT_EQ(payload->alerts[0].annotations.at("a0"), std::string(511, 'x'));
  EXPECT_EQ(payload->cut, 1u + 6 + 1);
}

TEST(ParseAlerts, TakesTheFirstOfTooMany) {
  Json alerts = Json::array();
  for (std::size_t i = 0; i < kMaxAlertsPerPost + 5; ++i)
    alerts.push_back(OneAlert("job" + std::to_string(i)));
  const auto payload = ParseAlerts(Post(alerts).dump());
  ASSERT_TRUE(payload.ok());
  EXPECT_EQ(payload->alerts.size(), kMaxAlertsPerPost);
  EXPECT_EQ(payload->too_many, 5u);
  EXPECT_EQ(payload->alerts.back().labels.at("job"), "job999");
}

TEST(ParseAlerts, DeepNestingIsIgnoredWithoutRecursion) {
  const std::string deep(500'000, '[');
  const std::string post =
      R"({"version":"4","x":)" + deep + std::string(deep.size(), ']') + R"(,"alerts":[]})";
  EXPECT_TRUE(ParseAlerts(post).ok());
  EXPECT_THAT(MessageOf(ParseAlerts(deep).status()), HasSubstr("not a JSON object"));
}

// What is said about odd text is shown in an answer and in the log.
TEST(ParseAlerts, ComplaintsAreShortAndPrintable) {
  const std::string name = "\x1b[2J\n" + std::string(5000, 'n');
  const std::string complaint = Complaint(Post({{{"labels", {{name, 1}}}}}));
  EXPECT_LT(complaint.size(), 200u);
  EXPECT_EQ(complaint.find('\x1b'), std::string::npos);
  EXPECT_EQ(complaint.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace strobe::trigger
