#include "operator/kube/client.h"

#include <gmock/gmock.h>

#include <thread>

#include "common/base/strings.h"
#include "tests/fakes/scripted_transport.h"

namespace strobe::kube {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::SizeIs;

HttpResponse Busy(Nanos retry_after) {
  return {429, R"({"message": "busy", "reason": "TooManyRequests"})", retry_after};
}

class ClientTest : public testing::Test {
 protected:
  const SystemClock clock_{};
  const std::shared_ptr<ScriptedTransport> server_ = std::make_shared<ScriptedTransport>();
  Client client_{clock_, server_};
};

TEST_F(ClientTest, ComesBackWhenTheServerSays) {
  int asked = 0;
  server_->OnUnary([&](const HttpRequest&) -> absl::StatusOr<HttpResponse> {
    if (++asked < 3) return Busy(1ms);
    return HttpResponse{200, R"({"a": 1})", std::nullopt};
  });
  EXPECT_EQ((*client_.Get("/x"))["a"], 1);
}

TEST_F(ClientTest, TellsTheServersTime) {
  EXPECT_EQ(client_.ServerTime(), std::nullopt);
  const WallTime date = clock_.WallNow() - 24h;
  server_->OnUnary([&](const HttpRequest&) { return HttpResponse{404, "{}", std::nullopt, date}; });
  EXPECT_FALSE(client_.Get("/x").ok());
  ASSERT_TRUE(client_.ServerTime());
  EXPECT_GE(*client_.ServerTime(), date);
  EXPECT_LT(*client_.ServerTime(), date + 1h);
}

// Otherwise a shared thread would sleep for a minute, up to ten times.
TEST_F(ClientTest, ASleepThatDoesNotFitIntoTheCallIsLeftToTheCaller) {
  server_->OnUnary([](const HttpRequest&) { return Busy(60s); });
  EXPECT_TRUE(absl::IsResourceExhausted(client_.Get("/x").status()));
  EXPECT_THAT(server_->requests(), SizeIs(1));
}

TEST_F(ClientTest, ManySleepsTogetherEndWithTheCall) {
  server_->OnUnary([](const HttpRequest&) { return Busy(40ms); });
  EXPECT_TRUE(absl::IsResourceExhausted(client_.Get("/x", 100ms).status()));
  EXPECT_LE(server_->requests().size(), 3u);
}

TEST_F(ClientTest, EachRequestMayTakeWhatIsLeftOfTheCall) {
  server_->OnUnary([](const HttpRequest&) { return HttpResponse{200, "{}", std::nullopt}; });
  EXPECT_TRUE(client_.Get("/x", 2s).ok());
  EXPECT_TRUE(client_.Get("/x").ok());
  EXPECT_LE(server_->requests()[0].timeout, 2s);
  EXPECT_GT(server_->requests()[1].timeout, 20s);
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_.Get("/x", 0s).status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded(client_.Get("/x", -1s).status()));
  EXPECT_THAT(server_->requests(), SizeIs(2)) << "nothing is sent when there is no time";
}

TEST_F(ClientTest, AnEndingProcessIsNotHeldUpByASleep) {
  server_->OnUnary([](const HttpRequest&) { return Busy(20s); });
  std::thread caller([this] { EXPECT_FALSE(client_.Get("/x").ok()); });
  while (server_->requests().empty()) std::this_thread::sleep_for(1ms);
  client_.EndWaits();
  caller.join();
  EXPECT_FALSE(client_.Get("/x").ok()) << "and nobody begins to sleep any more";
  EXPECT_THAT(server_->requests(), SizeIs(2));
}

TEST_F(ClientTest, AnswersThatAreNoJsonAreAnError) {
  server_->OnUnary([](const HttpRequest&) { return HttpResponse{200, "\xff{", std::nullopt}; });
  EXPECT_TRUE(absl::IsDataLoss(client_.Get("/x").status()));
}

TEST_F(ClientTest, AListIsGivenItemByItemWithoutWhatNobodyUses) {
  server_->OnUnary([](const HttpRequest&) {
    return HttpResponse{200,
                        R"({"metadata": {"resourceVersion": "7", "managedFields": [1]}, "items": [
        {"metadata": {"name": "a", "managedFields": [{"f:labels": {}}]}, "spec": {"managedFields": 1}},
        {"metadata": {"name": "b"}}]})",
                        std::nullopt};
  });
  std::vector<Json> items;
  const auto rest = client_.GetItems("/x", [&](Json& item) { items.push_back(std::move(item)); });
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(*rest, Json::parse(R"({"metadata": {"resourceVersion": "7"}, "items": []})"));
  ASSERT_THAT(items, SizeIs(2));
  EXPECT_EQ(items[0], Json::parse(R"({"metadata": {"name": "a"}, "spec": {"managedFields": 1}})"));
  EXPECT_EQ(items[1]["metadata"]["name"], "b");
}

TEST_F(ClientTest, AListThatIsCutOffOrHasOtherItemsIsAnError) {
  std::string body;
  server_->OnUnary([&](const HttpRequest&) { return HttpResponse{200, body, std::nullopt}; });
  for (const char* text : {R"({"items": [{"a": 1})", R"({"items": [{"a": 1}, {"b": }]})", "[]",
                           R"({"items": [[1]]})", ""}) {
    body = text;
    EXPECT_TRUE(absl::IsDataLoss(client_.GetItems("/x", [](Json&) {}).status())) << text;
  }
}

TEST_F(ClientTest, AnItemThatCannotBeReadIsAnError) {
  server_->OnUnary([](const HttpRequest&) {
    return HttpResponse{200, R"({"items": [{"metadata": 1}]})", std::nullopt};
  });
  EXPECT_TRUE(absl::IsDataLoss(
      client_.GetItems("/x", [](Json& item) { (void)item.at("metadata").at("name"); }).status()));
}

TEST_F(ClientTest, PagesAfterTheFirstAreOfTheSameVersion) {
  server_->OnUnary([&](const HttpRequest& request) {
    const bool first = !Contains(request.path, "continue=");
    return HttpResponse{200,
                        first ? R"({"metadata": {"continue": "a b"}, "items": [{"n": 1}]})"
                              : R"({"metadata": {}, "items": [{"n": 2}]})",
                        std::nullopt};
  });
  std::vector<int> numbers;
  ASSERT_TRUE(client_
                  .GetPages({.path = "/x", .selectors = "&labelSelector=a", .cached = true},
                            [&](const Json& item) { numbers.push_back(item["n"]); })
                  .ok());
  EXPECT_THAT(numbers, testing::ElementsAre(1, 2));
  ASSERT_THAT(server_->requests(), SizeIs(2));
  EXPECT_EQ(server_->requests()[0].path, "/x?limit=500&labelSelector=a&resourceVersion=0");
  EXPECT_EQ(server_->requests()[1].path, "/x?limit=500&labelSelector=a&continue=a%20b")
      << "the server refuses a version beside a token";
}

}  // namespace
}  // namespace strobe::kube
