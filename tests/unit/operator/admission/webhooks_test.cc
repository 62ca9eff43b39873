#include "operator/admission/webhooks.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "absl/strings/escaping.h"
#include "common/base/mutex.h"
#include "common/base/strings.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Json With(const std::string& field, int count, bool list) {
  Json object = {{"metadata", {{field, list ? Json::array() : Json::object()}}}};
  for (int i = 0; i < count; ++i) {
    if (list)
      object["metadata"][field].push_back(StrCat("x/", i));
    else
      object["metadata"][field][StrCat("x", i)] = "";
  }
  return object;
}

TEST(WhyTooManyEntries, EachKindOfEntryIsBounded) {
  struct Field {
    const char* name;
    int most;
    bool list;
  };
  for (const Field& field : {Field{"labels", 64, false}, Field{"annotations", 64, false},
                             Field{"finalizers", 16, true}, Field{"ownerReferences", 16, true}}) {
    const Json most = With(field.name, field.most, field.list);
    const Json more = With(field.name, field.most + 1, field.list);
    EXPECT_EQ(WhyTooManyEntries(most, nullptr), "") << field.name;
    EXPECT_THAT(WhyTooManyEntries(more, nullptr), HasSubstr(field.name));
    EXPECT_THAT(WhyTooManyEntries(more, most), HasSubstr(field.name));
  }
}

// Else nobody could take a finalizer away from an object of before.
TEST(WhyTooManyEntries, AnObjectThatHasTooManyMayLoseSome) {
  EXPECT_EQ(WhyTooManyEntries(With("labels", 100, false), With("labels", 100, false)), "");
  EXPECT_EQ(WhyTooManyEntries(With("labels", 99, false), With("labels", 100, false)), "");
}

TEST(WhyTooManyEntries, OddShapesThrowNothing) {
  for (const Json& object :
       {Json(), Json(1), Json{{"metadata", "x"}}, Json{{"metadata", {{"labels", 1}}}}})
    EXPECT_EQ(WhyTooManyEntries(object, object), "");
}

using namespace std::chrono_literals;

class Observer final : public WebhookObserver {
 public:
  void CountCall(const std::string&) override {}
  void Answered(const std::string&, int, Nanos) override {}
  void Injected(const std::string&, const std::string&) override {}
  void InjectionDamaged(const std::string&, const std::string&) override {}
};

// An API server that does not answer until it is released.
class StuckGatekeeper final : public access::Gatekeeper {
 public:
  absl::StatusOr<policy::Verdict> Judge(const objects::ProfileRequest&, const kube::Requester&,
                                        const policy::EarlierCaptures&, Nanos within) override {
    EXPECT_LT(within, 5s) << "the API server waits for five seconds";
    ++stuck;
    let_go.Wait();
    return policy::Verdict{};
  }
  std::optional<policy::Verdict> JudgeFromCache(const objects::ProfileRequest&,
                                                const policy::EarlierCaptures&) override {
    return std::nullopt;
  }
  absl::StatusOr<std::string> WhyNotAdmitted(const objects::ProfileRequest&) override { return ""; }
  absl::StatusOr<std::string> LogdirFor(const std::string&, Nanos) override { return logdir; }
  std::string WhyNoMoreRequests(const std::string& ns) override {
    return ns == "full" ? "full" : "";
  }
  void CaptureEnded(const std::string&, WallTime) override {}
  absl::StatusOr<std::string> logdir = std::string("/logs");
  std::atomic<int> stuck{0};
  Notification let_go;
};

http::Request Review(const Json& object, const std::string& ns = "ml") {
  return {.method = "POST",
          .content_type = "application/json",
          .body = Json({{"apiVersion", "admission.k8s.io/v1"},
                        {"kind", "AdmissionReview"},
                        {"request",
                         {{"uid", "1"},
                          {"operation", "CREATE"},
                          {"namespace", ns},
                          {"userInfo", {{"username", "jane"}}},
                          {"object", object}}}})
                      .dump()};
}

// Regression: eight handlers that waited for the API server stopped the injection of pods.
TEST(Webhooks, RequestsThatAreCheckedDoNotTakeEveryThread) {
  const SystemClock clock;
  StuckGatekeeper gatekeeper;
  Observer observer;
  const auto pages = WebhookPages(
      clock, {.injection = {.image = "s"}, .roots = [] { return ""; }, .max_judged_at_once = 4},
      gatekeeper, observer);
  const Json request = {{"metadata", {{"name", "look"}}},
                        {"spec", {{"target", {{"pods", {"a"}}}}, {"logdir", "/logs"}}}};
  std::vector<std::thread> users;
  for (int i = 0; i < 2; ++i)
    users.emplace_back([&] { pages.at("/check-request")(Review(request)); });
  while (gatekeeper.stuck < 2) std::this_thread::sleep_for(1ms);
  const http::Page third = pages.at("/check-request")(Review(request));
  EXPECT_EQ(third.status, 429) << "the API server comes again";
  // The address of these users holds its half of the turns; another address finds room.
  users.emplace_back([&] {
    http::Request from_elsewhere = Review(request);
    from_elsewhere.source = "10.0.0.9";
    pages.at("/check-request")(from_elsewhere);
  });
  while (gatekeeper.stuck < 3) std::this_thread::sleep_for(1ms);
  const http::Page pod = pages.at("/inject")(
      Review({{"metadata", {{"name", "p"}}}, {"spec", {{"containers", {{{"name", "t"}}}}}}}));
  EXPECT_THAT(pod.body, HasSubstr("\"patch\""));
  gatekeeper.let_go.Notify();
  for (std::thread& user : users) user.join();
  EXPECT_THAT(pages.at("/check-request")(Review(request)).body, HasSubstr("\"allowed\":true"));
}

TEST(Webhooks, ARequestWithoutALogdirGetsTheDefault) {
  const SystemClock clock;
  StuckGatekeeper gatekeeper;
  Observer observer;
  const auto pages = WebhookPages(clock, {}, gatekeeper, observer);
  const auto answer = [&](const Json& spec) {
    return Json::parse(
        pages.at("/default-request")(Review({{"metadata", {{"name", "look"}}}, {"spec", spec}}))
            .body)["response"];
  };
  std::string patch;
  ASSERT_TRUE(absl::Base64Unescape(
      answer({{"target", {{"pods", {"a"}}}}})["patch"].get<std::string>(), &patch));
  EXPECT_EQ(Json::parse(patch),
            Json::parse(R"([{"op": "add", "path": "/spec/logdir", "value": "/logs"}])"));
  for (const Json& logdir : {Json("/mine"), Json(""), Json(3)})
    EXPECT_FALSE(answer({{"logdir", logdir}}).contains("patch")) << logdir;
  EXPECT_FALSE(answer("text").contains("patch"));
  gatekeeper.logdir = absl::NotFoundError("give spec.logdir");
  EXPECT_EQ(answer(Json::object())["status"]["code"], 422);
  EXPECT_EQ(answer(Json::object())["status"]["message"], "give spec.logdir");
  gatekeeper.logdir = absl::UnavailableError("timeout");
  EXPECT_EQ(answer(Json::object())["status"]["code"], 500);
}

// All of them come from the API server's address.
TEST(Webhooks, CreationsInOneNamespaceLeaveRoomForThoseInOthers) {
  SimulatedTime time;
  StuckGatekeeper gatekeeper;
  Observer observer;
  const auto pages = WebhookPages(time, {}, gatekeeper, observer);
  const auto answered = [&](const std::string& ns, int reviews) {
    const http::Request review = Review({{"metadata", {{"name", "look"}}}, {"spec", {}}}, ns);
    int count = 0;
    for (int i = 0; i < reviews; ++i) count += pages.at("/default-request")(review).status == 200;
    return count;
  };
  EXPECT_EQ(answered("noisy", 1000), 100) << "half of the burst";
  EXPECT_EQ(answered("quiet", 50), 50);
  for (int second = 0; second < 10; ++second) {
    time.Advance(1s);
    EXPECT_LE(answered("noisy", 100), 50);
    EXPECT_EQ(answered("quiet", 10), 10);
  }
  int alone = 0;
  for (int second = 0; second < 10; ++second) {
    time.Advance(1s);
    alone += answered("noisy", 100);
  }
  EXPECT_GE(alone, 450) << "a namespace that is alone has the whole rate";
}

TEST(Webhooks, ARequestMayHaveSoManyLabelsAndANamespaceSoManyRequests) {
  const SystemClock clock;
  StuckGatekeeper gatekeeper;
  gatekeeper.let_go.Notify();
  Observer observer;
  const auto pages = WebhookPages(clock, {}, gatekeeper, observer);
  Json request = {{"metadata", {{"name", "look"}}},
                  {"spec", {{"target", {{"pods", {"a"}}}}, {"logdir", "/logs"}}}};
  const auto answer = [&](const std::string& page, const std::string& ns) {
    return Json::parse(pages.at(page)(Review(request, ns)).body)["response"];
  };
  EXPECT_EQ(answer("/check-request", "ml")["allowed"], true);
  EXPECT_EQ(answer("/check-request", "full")["status"]["message"], "full");
  for (int i = 0; i <= 64; ++i) request["metadata"]["labels"][std::to_string(i)] = "";
  for (const char* page : {"/check-request", "/check-schedule", "/check-trigger", "/check-size"})
    EXPECT_EQ(answer(page, "ml")["status"]["code"], 422) << page;
}

// Sixteen large reviews at once took hundreds of megabytes.
TEST(Webhooks, FewLargeReviewsAreInMemoryAtOnce) {
  const SystemClock clock;
  StuckGatekeeper gatekeeper;
  Observer observer;
  const auto pages = WebhookPages(clock, {.max_judged_at_once = 16}, gatekeeper, observer);
  const Json small = {{"metadata", {{"name", "look"}}},
                      {"spec", {{"target", {{"pods", {"a"}}}}, {"logdir", "/logs"}}}};
  Json large = small;
  large["spec"]["notes"] = std::string(600'000, 'x');
  std::vector<std::thread> users;
  for (int i = 0; i < 4; ++i) {
    users.emplace_back(
        [&, i] { pages.at("/check-request")(Review(large, "ns" + std::to_string(i))); });
  }
  while (gatekeeper.stuck < 4) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(pages.at("/check-request")(Review(large, "other")).status, 429);
  users.emplace_back([&] { pages.at("/check-request")(Review(small, "other")); });
  while (gatekeeper.stuck < 5) std::this_thread::sleep_for(1ms);
  gatekeeper.let_go.Notify();
  for (std::thread& user : users) user.join();
  EXPECT_EQ(pages.at("/check-request")(Review(large, "other")).status, 200);
}

TEST(Webhooks, ASelectorThatTheApiServerWouldRefuseIsRefusedAtOnce) {
  const SystemClock clock;
  StuckGatekeeper gatekeeper;
  Observer observer;
  const auto pages = WebhookPages(clock, {}, gatekeeper, observer);
  const Json request = {
      {"metadata", {{"name", "look"}}},
      {"spec",
       {{"target", {{"selector", {{"matchLabels", {{"app", "my app"}}}}}}}, {"logdir", "/logs"}}}};
  EXPECT_THAT(pages.at("/check-request")(Review(request)).body,
              HasSubstr("target.selector.matchLabels"));
  EXPECT_EQ(gatekeeper.stuck, 0);
}

}  // namespace
}  // namespace strobe::admission
