#include "viewer/service/gate.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/viewer/service/fake_judge.h"

namespace strobe::viewer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

class GateTest : public testing::Test {
 protected:
  http::Page Get(const std::string& path, const std::string& user,
                 const std::string& host = "localhost") {
    inside_.reset();
    http::Request request{.path = path, .host = host};
    if (!user.empty()) request.headers = {{"X-Forwarded-User", user}};
    return gate_.Answer(request);
  }

  HandClock clock_;
  FakeJudge judge_;
  Access access_{clock_, judge_, {}};
  std::optional<VisibleLogdirs> inside_;  // What the last request saw, if it got that far.
  Gate gate_{clock_,
             access_,
             {.hosts = {"strobe.example.com"}, .namespaces = {"ops", "ml", "ops", "web"}},
             [this](const http::Request&, const VisibleLogdirs& visible) {
               inside_ = visible;
               return http::Page{200, "inside"};
             }};
};

TEST_F(GateTest, ShowsTheLogdirsOfTheNamespacesThatTheAskerMaySee) {
  judge_.Allow("jane", "ops");
  judge_.Allow("bob", "ml");
  EXPECT_EQ(Get("/", "jane").body, "inside");
  EXPECT_THAT(inside_, Optional(ElementsAre(0, 2)));
  Get("/", "bob");
  EXPECT_THAT(inside_, Optional(ElementsAre(1)));
  Get("/", "eve");
  EXPECT_THAT(inside_, Optional(IsEmpty()));
}

TEST_F(GateTest, NothingIsReachedWithoutAnAsker) {
  for (const char* path : {"/", "/api/runs", "/healthz", "/app.js", "/anything"}) {
    EXPECT_EQ(Get(path, "").status, 401) << path;
    EXPECT_FALSE(inside_) << path;
  }
  EXPECT_THAT(Get("/", "").body, HasSubstr("X-Forwarded-User"));
  EXPECT_EQ(Get("/", "jane,bob").status, 400);
  EXPECT_EQ(Get("/", "system:admin").status, 403);
  EXPECT_EQ(Get("/", std::string(10'000, 'a')).status, 431);
  EXPECT_FALSE(inside_);
}

TEST_F(GateTest, NothingIsReachedUnderAnotherName) {
  EXPECT_EQ(Get("/", "jane", "evil.example").status, 403);
  EXPECT_FALSE(inside_);
  EXPECT_EQ(judge_.asked(), 0);
  EXPECT_EQ(Get("/", "jane", "strobe.example.com:443").status, 200);
}

TEST_F(GateTest, NothingIsReachedWhenTheApiServerDoesNotAnswer) {
  judge_.Allow("jane", "ml");
  judge_.broken = true;
  const http::Page page = Get("/api/runs", "jane");
  EXPECT_EQ(page.status, 503);
  EXPECT_FALSE(inside_);
  EXPECT_THAT(page.body, testing::Not(HasSubstr("ml"))) << "names no namespace";
  EXPECT_THAT(page.headers, testing::Contains(testing::Pair("Retry-After", "2")));
}

TEST_F(GateTest, EveryAnswerHasThePolicy) {
  for (const char* user : {"jane", "", "a,b"}) {
    EXPECT_THAT(Get("/", user).headers,
                testing::Contains(testing::Pair("X-Content-Type-Options", "nosniff")));
  }
}

TEST_F(GateTest, WaitsWhileItMustAsk) {
  const http::Request request{.host = "localhost", .headers = {{"X-Forwarded-User", "jane"}}};
  EXPECT_EQ(gate_.WorkOf(request).load, http::Load::kWaits);
  gate_.Answer(request);
  EXPECT_EQ(gate_.WorkOf(request).load, http::Load::kShort);
  EXPECT_EQ(gate_.WorkOf(http::Request{.host = "localhost"}).load, http::Load::kShort)
      << "a refusal asks nobody";
}

TEST_F(GateTest, TheUserPaysWhereverARequestComesFrom) {
  const auto asker = [this](const std::string& user, const std::string& source) {
    http::Request request{.host = "localhost", .source = source};
    if (!user.empty()) request.headers = {{"X-Forwarded-User", user}};
    return gate_.WorkOf(request).asker;
  };
  EXPECT_EQ(asker("jane", "10.0.0.1"), asker("jane", "10.0.0.2"));
  EXPECT_NE(asker("jane", "10.0.0.1"), asker("bob", "10.0.0.1"));
  EXPECT_NE(asker("", "10.0.0.1"), asker("", "10.0.0.2"));
  EXPECT_NE(asker("10.0.0.1", "10.0.0.2"), asker("", "10.0.0.1"));
}

// What a request costs must not tell of runs that its asker may not see.
TEST(Gate, TheCostIsJudgedByWhatTheAskerMaySee) {
  HandClock clock;
  FakeJudge judge;
  judge.Allow("bob", "ml");
  Access access(clock, judge, {});
  std::vector<std::optional<VisibleLogdirs>> judged;
  Gate gate(clock, access,
            {.namespaces = {"ops", "ml"},
             .load_of =
                 [&](const http::Request&, const VisibleLogdirs* visible) {
                   judged.push_back(visible == nullptr ? std::nullopt : std::optional(*visible));
                   return http::Load::kHeavy;
                 }},
            [](const http::Request&, const VisibleLogdirs&) { return http::Page{}; });
  const http::Request request{.host = "localhost", .headers = {{"X-Forwarded-User", "bob"}}};
  EXPECT_EQ(gate.WorkOf(request).load, http::Load::kHeavy);
  gate.Answer(request);
  EXPECT_EQ(gate.WorkOf(request).load, http::Load::kHeavy);
  EXPECT_THAT(judged, ElementsAre(std::nullopt, Optional(ElementsAre(1))));
}

}  // namespace
}  // namespace strobe::viewer
