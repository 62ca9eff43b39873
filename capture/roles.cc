#include "capture/roles.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/base/strings.h"
#include "common/protocol/process_role.h"
#include "common/text/safe_text.h"

namespace strobe::capture {
namespace {

using Peers = std::vector<WorkerResult*>;

// The number of processes in the worker's job, as its process tells; 0 = not told.
std::uint32_t WorldOf(const WorkerResult& worker) {
  if (worker.report.has_rank()) return worker.report.rank().world_size();
  return worker.ranks.size() == 1 ? worker.ranks.front().world_size() : 0;
}

bool RanksCollide(const Peers& peers) {
  std::set<int> seen;
  return std::any_of(peers.begin(), peers.end(), [&](const WorkerResult* peer) {
    return peer->target.rank >= 0 && !seen.insert(peer->target.rank).second;
  });
}

void AddToGroup(const std::string& part, WorkerResult& worker) {
  worker.group += StrCat(worker.group.empty() ? "" : " ", part);
}

// The peers by `key`, in their order.
template <typename Key>
std::map<Key, Peers> DividedBy(const Peers& peers, Key (*key)(const WorkerResult&)) {
  std::map<Key, Peers> parts;
  for (WorkerResult* peer : peers) parts[key(*peer)].push_back(peer);
  return parts;
}

std::string PodOf(const WorkerResult& worker) {
  // See SplitByProcess.
  const std::string& name = worker.target.name;
  return worker.local_rank < 0 ? name : name.substr(0, name.rfind('/'));
}

std::string RoleOf(const WorkerResult& worker) { return worker.target.role; }

// What the worker's engines did for requests while they were recorded.
struct EngineTokens {
  std::uint64_t prefill = 0, decode = 0;
};
EngineTokens TokensOf(const WorkerResult& worker) {
  EngineTokens tokens;
  for (const v1::ProcessReport& process : worker.report.processes()) {
    tokens.prefill |= process.engine().prefill_tokens();
    tokens.decode |= process.engine().decode_tokens();
  }
  return tokens;
}

// The k-th worker of a pod with the same rank is in the pod's k-th group.
void NameByPod(const Peers& peers) {
  std::map<std::pair<std::string, int>, int> seen;
  for (WorkerResult* peer : peers) {
    const std::string pod = PodOf(*peer);
    const int rank = peer->target.rank;
    const int before = rank < 0 ? 0 : seen[{pod, rank}]++;
    AddToGroup(before == 0 ? pod : StrCat(pod, "#", before + 1), *peer);
  }
}

}  // namespace

std::size_t WantedOf(const RoleWanted& role, std::size_t there) {
  return std::max<std::size_t>(role.min_workers == 0 ? there : role.min_workers, 1);
}

const RoleWanted* TooFewOf(const Spec& spec, const RoleCounts& counts) {
  for (const RoleWanted& role : spec.roles) {
    const auto found = counts.find(role.role);
    const RoleCount count = found == counts.end() ? RoleCount{} : found->second;
    if (count.counted < WantedOf(role, count.there)) return &role;
  }
  return nullptr;
}

bool RolesDiffer(const std::vector<WorkerResult>& workers) {
  return std::any_of(workers.begin(), workers.end(), [&](const WorkerResult& worker) {
    return worker.target.role != workers.front().target.role;
  });
}

void TakeProcessRoles(std::vector<WorkerResult>& workers) {
  constexpr std::size_t kMaxRole = 63;  // Bytes, as of the values of labels.
  for (WorkerResult& worker : workers) {
    if (!worker.target.role.empty()) continue;
    const v1::ProcessReport* process = ProcessWithRole(worker.report.processes());
    if (process == nullptr) continue;
    worker.target.role = CutUtf8(process->role(), kMaxRole);
    worker.target.role_from = process->role_from();
  }
}

void ObserveRoles(std::vector<WorkerResult>& workers) {
  Peers prefill, decode;
  for (WorkerResult& worker : workers) {
    if (!worker.target.role.empty()) continue;
    const EngineTokens tokens = TokensOf(worker);
    if (tokens.prefill > 0 && tokens.decode > 0) return;
    if (tokens.prefill > 0) prefill.push_back(&worker);
    if (tokens.decode > 0) decode.push_back(&worker);
  }
  if (prefill.empty() || decode.empty()) return;
  for (const auto& [role, peers] : {std::pair("prefill", &prefill), std::pair("decode", &decode)}) {
    for (WorkerResult* peer : *peers) {
      peer->target.role = role;
      peer->target.role_from = "observed";
    }
  }
}

void AssignGroups(std::vector<WorkerResult>& workers) {
  Peers all;
  for (WorkerResult& worker : workers) {
    worker.group.clear();
    all.push_back(&worker);
  }
  for (const auto& [role, peers] : DividedBy<std::string>(all, &RoleOf)) {
    if (!RanksCollide(peers)) continue;
    const auto worlds = DividedBy<std::uint32_t>(peers, &WorldOf);
    for (const auto& [world, part] : worlds) {
      if (worlds.size() > 1 && world > 0) {
        for (WorkerResult* peer : part) AddToGroup(StrCat("world ", world), *peer);
      }
      if (RanksCollide(part)) NameByPod(part);
    }
  }
}

}  // namespace strobe::capture
