#include "capture/roles.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "capture/attempt_result.h"
#include "capture/process_workers.h"

namespace strobe::capture {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

struct Place {
  std::string role{}, pod{};
  int local_rank = -1, rank = -1;
  std::uint32_t world = 0;
  Outcome outcome = Outcome::kOk;
};

WorkerResult WorkerAt(const Place& place) {
  WorkerResult worker;
  worker.target.role = place.role;
  worker.target.pod = place.pod;
  worker.target.name =
      place.local_rank < 0 ? place.pod : place.pod + "/" + std::to_string(place.local_rank);
  worker.target.file = place.role + "." + place.pod;
  worker.target.rank = place.rank;
  worker.local_rank = place.local_rank;
  worker.armed = true;
  worker.outcome = place.outcome;
  worker.error = 10us;
  if (place.world > 0) worker.report.mutable_rank()->set_world_size(place.world);
  if (place.outcome == Outcome::kOk) {
    worker.report.set_url("file:///x");
    worker.report.set_covers_window(true);
  }
  return worker;
}

std::vector<WorkerResult> WorkersAt(const std::vector<Place>& places) {
  std::vector<WorkerResult> workers;
  for (const Place& place : places) workers.push_back(WorkerAt(place));
  return workers;
}

std::vector<std::string> GroupsOf(const std::vector<Place>& places) {
  std::vector<WorkerResult> workers = WorkersAt(places);
  AssignGroups(workers);
  std::vector<std::string> groups;
  for (const WorkerResult& worker : workers) groups.push_back(worker.group);
  return groups;
}

Spec TwoRoles(std::size_t prefill, std::size_t decode) {
  Spec spec;
  spec.roles = {{"prefill", prefill}, {"decode", decode}};
  spec.min_workers = prefill + decode;
  return spec;
}

AttemptResult ConcludedRoles(const Spec& spec, std::vector<WorkerResult> workers) {
  AttemptResult result;
  result.workers = std::move(workers);
  Conclude(spec, result);
  return result;
}

TEST(AssignGroups, OneJobIsOneGroup) {
  EXPECT_THAT(GroupsOf({{"", "a", -1, 0}, {"", "b", -1, 1}, {"", "c", -1, -1}, {"", "d", -1, -1}}),
              ElementsAre("", "", "", ""));
  EXPECT_THAT(GroupsOf({{"prefill", "p", -1, 0}, {"decode", "d", -1, 0}}), ElementsAre("", ""))
      << "roles count for themselves";
}

TEST(AssignGroups, EachReplicaOfAServerHasARankZero) {
  EXPECT_THAT(GroupsOf({{"decode", "d-0", 0, 0, 2},
                        {"decode", "d-0", 1, 1, 2},
                        {"decode", "d-1", 0, 0, 2},
                        {"decode", "d-1", 1, 1, 2}}),
              ElementsAre("d-0", "d-0", "d-1", "d-1"));
}

TEST(AssignGroups, ReplicasInOnePodAreApart) {
  EXPECT_THAT(GroupsOf({{"", "vllm", 0, 0, 1}, {"", "vllm", 1, 0, 1}}),
              ElementsAre("vllm", "vllm#2"));
}

// Colocated RL: each pod has two ranks of a trainer of four, and a server of two.
TEST(AssignGroups, APodWithTwoRankSystemsHasTwoGroups) {
  EXPECT_THAT(GroupsOf({{"", "a", 0, 0, 4},
                        {"", "a", 1, 1, 4},
                        {"", "a", 2, 0, 2},
                        {"", "a", 3, 1, 2},
                        {"", "b", 0, 2, 4},
                        {"", "b", 1, 3, 4},
                        {"", "b", 2, 0, 2},
                        {"", "b", 3, 1, 2}}),
              ElementsAre("world 4", "world 4", "world 2 a", "world 2 a", "world 4", "world 4",
                          "world 2 b", "world 2 b"));
}

struct Tokens {
  std::uint64_t prefill = 0, decode = 0;
};

// The roles of workers that have none, by what their engines did.
std::vector<std::string> ObservedOf(const std::vector<Tokens>& engines) {
  std::vector<WorkerResult> workers;
  for (const Tokens& tokens : engines) {
    workers.push_back(WorkerAt({"", "w"}));
    workers.back().report.add_processes();  // The API server, which has no engine.
    v1::EngineWork& engine = *workers.back().report.add_processes()->mutable_engine();
    engine.set_prefill_tokens(tokens.prefill);
    engine.set_decode_tokens(tokens.decode);
  }
  ObserveRoles(workers);
  std::vector<std::string> roles;
  for (const WorkerResult& worker : workers)
    roles.push_back(worker.target.role + "/" + worker.target.role_from);
  return roles;
}

TEST(ObserveRoles, ServersThatDoOneThingEachHaveRoles) {
  EXPECT_THAT(ObservedOf({{900, 0}, {0, 70}, {0, 0}, {0, 9}}),
              ElementsAre("prefill/observed", "decode/observed", "/", "decode/observed"))
      << "of one that did nothing, nothing is known";
}

TEST(ObserveRoles, NothingIsConcludedFromServersThatDoBoth) {
  EXPECT_THAT(ObservedOf({{900, 0}, {0, 70}, {30, 70}}), ElementsAre("/", "/", "/"));
  EXPECT_THAT(ObservedOf({{0, 70}, {0, 9}}), ElementsAre("/", "/")) << "no prompt came";
}

TEST(ObserveRoles, WhatSomebodySaysStays) {
  std::vector<WorkerResult> workers = WorkersAt({{"router", "r"}, {"", "p"}, {"", "d"}});
  workers[0].report.add_processes()->mutable_engine()->set_prefill_tokens(9);
  workers[1].report.add_processes()->mutable_engine()->set_prefill_tokens(9);
  workers[2].report.add_processes()->mutable_engine()->set_decode_tokens(9);
  ObserveRoles(workers);
  EXPECT_EQ(workers[0].target.role, "router");
  EXPECT_EQ(workers[1].target.role, "prefill");
  EXPECT_EQ(workers[2].target.role, "decode");
}

// In a pod of colocated RL, a trainer and a server have ranks of their own.
TEST(SplitByProcess, WorkersHaveTheRolesThatTheirProcessesSay) {
  WorkerResult pod = WorkerAt({.pod = "rl-0"});
  for (const auto& [local_rank, role] : {std::pair(0u, "actor"), std::pair(1u, "rollout")}) {
    v1::Report& worker = *pod.report.add_workers();
    worker.set_url("file:///x");
    worker.mutable_rank()->set_local_rank(local_rank);
    worker.mutable_rank()->set_rank(0);
    v1::ProcessReport& process = *worker.add_processes();
    process.set_role(role);
    process.set_role_from("class of Ray's actor");
  }
  std::vector<WorkerResult> workers = {pod};
  SplitByProcess(workers);
  ASSERT_EQ(workers.size(), 2u);
  EXPECT_EQ(workers[0].target.role, "actor");
  EXPECT_EQ(workers[1].target.role, "rollout");
  EXPECT_EQ(workers[1].target.role_from, "class of Ray's actor");
  EXPECT_EQ(workers[1].group, "") << "each role has one rank 0";
}

TEST(TakeProcessRoles, WhatTheRequestSaysStaysAndTwoRolesAreNone) {
  std::vector<WorkerResult> workers = WorkersAt({{"decode", "d"}, {"", "x"}});
  workers[0].report.add_processes()->set_role("prefill");
  workers[1].report.add_processes()->set_role("actor");
  workers[1].report.add_processes()->set_role("critic");
  TakeProcessRoles(workers);
  EXPECT_EQ(workers[0].target.role, "decode");
  EXPECT_EQ(workers[1].target.role, "");
}

TEST(SplitByProcess, ProcessesOfOneRoleDoNotRenumberAnother) {
  std::vector<WorkerResult> workers = WorkersAt({{"trainer", "t", -1, 5}, {"rollout", "r", -1, 0}});
  workers[1].report.mutable_rank()->set_rank(7);
  SplitByProcess(workers);
  EXPECT_EQ(workers[0].target.rank, 5) << "as its pod says";
  EXPECT_EQ(workers[1].target.rank, 7) << "as its process says";
}

TEST(Conclude, EachTargetNeedsEnoughWorkers) {
  const std::vector<Place> places = {
      {"prefill", "p-0"}, {"decode", "d-0"}, {"decode", "d-1", -1, -1, 0, Outcome::kBusy}};
  const AttemptResult enough = ConcludedRoles(TwoRoles(1, 1), WorkersAt(places));
  EXPECT_TRUE(enough.succeeded);
  EXPECT_THAT(enough.message, HasSubstr("2 of 3 workers Ok; prefill: 1 of 1, decode: 1 of 2 pods"));
  ASSERT_EQ(enough.roles.size(), 2u);
  EXPECT_EQ(enough.roles[1].role, "decode");
  EXPECT_EQ(enough.roles[1].ok, 1u);
  EXPECT_EQ(enough.roles[1].pods, 2u);
  const AttemptResult few = ConcludedRoles(TwoRoles(1, 2), WorkersAt(places));
  EXPECT_FALSE(few.succeeded);
  EXPECT_EQ(few.reason, "Busy");
  EXPECT_THAT(few.message, HasSubstr("decode: 1 of 2 pods Ok, at least 2 wanted; d-1: Busy"));
}

// Enough workers in all, and none of them decodes.
TEST(Conclude, OneTargetCannotStandForAnother) {
  const AttemptResult result = ConcludedRoles(
      TwoRoles(1, 1), WorkersAt({{"prefill", "p-0"},
                                 {"prefill", "p-1"},
                                 {"decode", "d-0", -1, -1, 0, Outcome::kNoHostEvents}}));
  EXPECT_FALSE(result.succeeded);
  EXPECT_THAT(result.message, HasSubstr("decode: 0 of 1 pods Ok, at least 1 wanted"));
}

TEST(Conclude, SkewIsToldOfAllAndOfEachTarget) {
  std::vector<WorkerResult> workers =
      WorkersAt({{"prefill", "p"}, {"decode", "d-0"}, {"decode", "d-1"}});
  const std::int64_t begin = Nanos(1000s).count();
  for (std::size_t i = 0; i < workers.size(); ++i)
    workers[i].report.set_started_ns(begin + Nanos(i == 0 ? 0ms : i == 1 ? 5ms : 6ms).count());
  const AttemptResult result = ConcludedRoles(TwoRoles(1, 2), std::move(workers));
  EXPECT_EQ(result.skew->achieved, 6ms);
  EXPECT_EQ(result.roles[0].skew->achieved, 0ms);
  EXPECT_EQ(result.roles[1].skew->achieved, 1ms);
}

TEST(Conclude, WorkersOfDifferentRolesHaveNoStepsInCommon) {
  std::vector<WorkerResult> workers = WorkersAt({{"prefill", "p"}, {"decode", "d"}});
  for (WorkerResult& worker : workers) {
    worker.report.mutable_steps()->set_loop("engine");
    worker.report.mutable_steps()->set_first(3);
    worker.report.mutable_steps()->set_last(9);
  }
  EXPECT_FALSE(ConcludedRoles(TwoRoles(1, 1), workers).steps);
  workers[0].target.role = "decode";
  EXPECT_TRUE(ConcludedRoles({}, workers).steps);
}

TEST(RetryAfter, LooksForEnoughWorkersOfEachRole) {
  const auto retries = [](Outcome prefill, Outcome decode) {
    AttemptResult result;
    result.workers = WorkersAt({{"prefill", "p-0", -1, -1, 0, prefill},
                                {"prefill", "p-1"},
                                {"decode", "d-0", -1, -1, 0, decode}});
    return RetryAfter(TwoRoles(1, 1), result).has_value();
  };
  EXPECT_TRUE(retries(Outcome::kOk, Outcome::kBusy));
  EXPECT_FALSE(retries(Outcome::kBusy, Outcome::kUploadDenied))
      << "two prefill workers are enough in number, and decode cannot get better";
}

TEST(ComposeManifest, NamesAWorkerByRoleGroupAndRank) {
  std::vector<WorkerResult> workers =
      WorkersAt({{"prefill", "p-1", 0, 0, 1}, {"decode", "d", -1, 4}, {"prefill", "p-0", 0, 0, 1}});
  AssignGroups(workers);
  workers[1].target.role_from = "request";
  const Spec spec = TwoRoles(2, 1);
  const AttemptResult result = ConcludedRoles(spec, std::move(workers));
  const absl::StatusOr<std::string> text = ManifestJson(ComposeManifest(spec, result));
  ASSERT_TRUE(text.ok()) << text.status();
  const auto json = nlohmann::json::parse(*text);
  EXPECT_EQ(json["roles"][0]["role"], "prefill");
  EXPECT_EQ(json["roles"][0]["pods"], 2);
  EXPECT_EQ(json["workers"][0]["role"], "decode");
  EXPECT_EQ(json["workers"][0]["roleFrom"], "request");
  EXPECT_EQ(json["workers"][0]["group"], "");
  EXPECT_EQ(json["workers"][1]["group"], "p-0");
  EXPECT_EQ(json["workers"][2]["group"], "p-1");
}

}  // namespace
}  // namespace strobe::capture
