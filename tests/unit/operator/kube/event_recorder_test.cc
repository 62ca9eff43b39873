#include "operator/kube/event_recorder.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"
#include "tests/fakes/scripted_transport.h"
#include "tests/fakes/simulated_time.h"

namespace strobe::kube {
namespace {

// What the API server is asked: "<method> <note>", or "<method> x<count>" for a series.
std::vector<std::string> SentEvents(const std::vector<std::string>& notes, int missing = -1) {
  SimulatedTime time;
  const auto transport = std::make_shared<ScriptedTransport>();
  std::vector<std::string> sent;
  transport->OnUnary([&](const HttpRequest& request) -> absl::StatusOr<HttpResponse> {
    const Json body = Json::parse(request.body);
    const bool creates = request.method == "POST";
    EXPECT_NE(creates, !body.contains("note")) << "an event's note is immutable";
    sent.push_back(creates ? StrCat("POST ", body["note"].get<std::string>())
                           : StrCat("PATCH x", body["series"]["count"].get<int>()));
    const bool gone = static_cast<int>(sent.size()) == missing;
    return HttpResponse{gone ? 404 : 200, "{}", {}};
  });
  Client client(time, transport);
  {
    EventRecorder events(time, client, "test");
    for (const std::string& note : notes)
      events.Record({{"v1", "Pod", "ml", "p", "uid"}, false, "Began", "Begin", note});
  }
  return sent;
}

TEST(EventRecorder, TheSameAgainIsCounted) {
  EXPECT_THAT(SentEvents({"a", "a", "a"}), testing::ElementsAre("POST a", "PATCH x2", "PATCH x3"));
  EXPECT_THAT(SentEvents({"a", "a"}, 2), testing::ElementsAre("POST a", "PATCH x2", "POST a"))
      << "the server has deleted the old event";
}

TEST(EventRecorder, AnotherNoteIsAnEventUntilThereAreTooMany) {
  std::vector<std::string> notes;
  for (int i = 0; i < 20; ++i) notes.push_back(StrCat("note ", i));
  const std::vector<std::string> sent = SentEvents(notes);
  ASSERT_EQ(sent.size(), 20u);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(sent[static_cast<std::size_t>(i)],
              i <= 10 ? StrCat("POST note ", i) : StrCat("PATCH x", i - 9));
}

TEST(EventRecorder, ALongNameIsCutToAName) {
  SimulatedTime time;
  const auto transport = std::make_shared<ScriptedTransport>();
  std::string name;
  transport->OnUnary([&](const HttpRequest& request) -> absl::StatusOr<HttpResponse> {
    name = Json::parse(request.body)["metadata"]["name"];
    return HttpResponse{200, "{}", {}};
  });
  Client client(time, transport);
  {
    EventRecorder events(time, client, "test");
    const std::string cut_at_a_dash = StrCat(std::string(198, 'a'), "-", ".", "tail");
    events.Record({{"v1", "Pod", "ml", cut_at_a_dash, "uid"}, false, "Began", "Begin", "n"});
  }
  EXPECT_THAT(name, testing::MatchesRegex("a{198}[.][0-9a-f]+"));
}

TEST(EventRecorder, AStormInOneNamespaceCostsAnotherNothing) {
  SimulatedTime time;
  const auto transport = std::make_shared<ScriptedTransport>();
  Notification begun, go;
  std::vector<std::string> asked;
  transport->OnUnary([&](const HttpRequest& request) -> absl::StatusOr<HttpResponse> {
    begun.Notify();
    go.WaitFor(std::chrono::seconds(10));
    asked.push_back(request.path);
    return HttpResponse{200, "{}", {}};
  });
  Client client(time, transport);
  {
    EventRecorder events(time, client, "test");
    const auto record = [&](const std::string& ns) {
      events.Record({{"v1", "Pod", ns, "p", ns}, false, "Began", "Begin", "note"});
    };
    record("noisy");
    begun.Wait();
    for (std::size_t i = 0; i < EventRecorder::kQueue + 10; ++i) record("noisy");
    EXPECT_EQ(events.dropped(), 10u);
    record("quiet");
    EXPECT_EQ(events.dropped(), 11u) << "of the noisy namespace";
    go.Notify();
  }
  ASSERT_EQ(asked.size(), EventRecorder::kQueue + 1);
  EXPECT_THAT(asked[1], testing::HasSubstr("/quiet/")) << "its turn comes next";
}

}  // namespace
}  // namespace strobe::kube
