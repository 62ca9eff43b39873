#include "collector/trace/report/role_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::report {
namespace {

using RolesJson = nlohmann::ordered_json;

constexpr std::size_t kMaxHeadlines = 8, kMaxUnplacedRows = 20;

// What the merger keeps of a digest; see MergeLimits.
std::size_t CallsIn(const digest::Digest& digest) {
  return digest.collectives.size() + 2 * digest.steps.size();
}

// What a report of workers that are not alike cannot tell of all of them together.
RolesJson EmptyReport(std::string_view capture_id, std::string_view run) {
  return {{"format", 1},
          {"captureId", capture_id},
          {"run", run},
          {"headline", ""},
          {"figures", RolesJson()},
          {"stragglers", RolesJson()},
          {"steps", RolesJson::array()},
          {"ops", RolesJson::array()},
          {"workers", RolesJson::array()},
          {"workersLeftOut", 0},
          {"missing", RolesJson::array()},
          {"missingWorkers", 0}};
}

}  // namespace

std::string NameOf(const LikeWorkers& like) {
  if (like.role.empty()) return like.group.empty() ? "other workers" : like.group;
  return like.group.empty() ? like.role : StrCat(like.role, " (", like.group, ")");
}

RunReport* RoleReport::PartOf(const LikeWorkers& like) {
  const auto found = std::find_if(parts_.begin(), parts_.end(),
                                  [&](const Part& part) { return part.like == like; });
  if (found != parts_.end()) return found->report.get();
  if (parts_.size() == kMaxParts) return nullptr;
  parts_.push_back({like, std::make_unique<RunReport>()});
  return parts_.back().report.get();
}

void RoleReport::Add(const digest::Digest& digest) {
  RunReport* part = PartOf({digest.role, digest.group});
  if (part == nullptr)
    return AddMissing(digest.worker,
                      StrCat("a report compares at most ", kMaxParts, " kinds of workers"));
  calls_ += CallsIn(digest);
  if (parts_.size() > 1 && calls_ > kMaxCalls)
    return part->AddMissing(digest.worker,
                            StrCat("the traces have more than ", kMaxCalls, " calls and steps"));
  part->Add(digest);
}

void RoleReport::AddMissing(std::string_view worker, std::string_view why,
                            const LikeWorkers& like) {
  RunReport* part = like == LikeWorkers{} ? nullptr : PartOf(like);
  if (part != nullptr)
    part->AddMissing(worker, why);
  else
    unplaced_.push_back({std::string(worker), std::string(why)});
}

MadeReport RoleReport::Finish(std::string_view capture_id, std::string_view run,
                              std::size_t max_bytes) {
  if (parts_.size() > 1) return FinishParts(capture_id, run, max_bytes);
  if (parts_.empty()) parts_.push_back({{}, std::make_unique<RunReport>()});
  RunReport& only = *parts_.front().report;
  for (const Missing& missing : unplaced_) only.AddMissing(missing.worker, missing.why);
  return only.Finish(capture_id, run, max_bytes);
}

MadeReport RoleReport::FinishParts(std::string_view capture_id, std::string_view run,
                                   std::size_t max_bytes) {
  std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
    return std::tie(a.like.role, a.like.group) < std::tie(b.like.role, b.like.group);
  });
  RolesJson json = EmptyReport(capture_id, run);
  RolesJson roles = RolesJson::array();
  std::vector<std::string> headlines;
  for (Part& part : parts_) {
    const MadeReport made = part.report->Finish(capture_id, run, max_bytes / (parts_.size() + 1));
    part.report.reset();
    if (headlines.size() < kMaxHeadlines)
      headlines.push_back(StrCat(NameOf(part.like), ": ", made.headline));
    RolesJson entry = {{"role", part.like.role}, {"group", part.like.group}};
    entry.update(RolesJson::parse(made.json));
    for (const char* once : {"format", "captureId", "run"}) entry.erase(once);
    roles.push_back(std::move(entry));
  }
  if (parts_.size() > headlines.size())
    headlines.push_back(StrCat("and ", parts_.size() - headlines.size(), " more"));
  for (const Missing& missing : unplaced_) {
    if (json["missing"].size() == kMaxUnplacedRows) break;
    json["missing"].push_back({{"worker", missing.worker}, {"why", missing.why}});
  }
  json["missingWorkers"] = unplaced_.size();
  MadeReport made{.headline = Join(headlines, "; ")};
  json["headline"] = made.headline;
  json["roles"] = std::move(roles);
  made.json = JsonText(json) + "\n";
  return made;
}

}  // namespace strobe::report
