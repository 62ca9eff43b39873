#include "cli/report/role_pages.h"

#include <span>
#include <utility>

#include "collector/trace/report/digest_operations.h"
#include "collector/trace/report/report_json.h"
#include "collector/trace/report/stragglers.h"
#include "common/base/strings.h"

namespace strobe::cli {
namespace {

report::Job MergedJob(std::span<const digest::Digest> digests) {
  report::DigestMerger merger;
  for (const digest::Digest& digest : digests) merger.Add(digest);
  return merger.Finish(digests.size());
}

std::string TitleOf(const std::string& role) { return role.empty() ? "other workers" : role; }

}  // namespace

DigestsByRole DivideByRole(std::vector<digest::Digest> digests) {
  DigestsByRole roles;
  for (digest::Digest& digest : digests) {
    std::vector<digest::Digest>& of_role = roles[digest.role];
    of_role.push_back(std::move(digest));
  }
  return roles;
}

ReportDocument RolesPage(const std::string& place, const DigestsByRole& roles,
                         const PageOptions& options) {
  ReportDocument page{.title = place};
  std::vector<std::string> headlines;
  for (const auto& [role, digests] : roles) {
    const report::Job job = MergedJob(digests);
    ReportDocument of_role = RunPage(place, digests, job, report::FindStragglers(job), options);
    headlines.push_back(StrCat(TitleOf(role), ": ", of_role.headline));
    page.sections.push_back({.heading = TitleOf(role), .lines = {headlines.back()}});
    for (DocumentSection& section : of_role.sections) {
      if (!section.heading.empty()) section.heading = StrCat(TitleOf(role), ": ", section.heading);
      page.sections.push_back(std::move(section));
    }
  }
  page.headline = Join(headlines, "; ");
  return page;
}

nlohmann::ordered_json RoleStragglersJson(const DigestsByRole& roles) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [role, digests] : roles) {
    const report::Job job = MergedJob(digests);
    list.push_back({{"role", role},
                    {"stragglers", report::StragglersToJson(job, report::FindStragglers(job))}});
  }
  return list;
}

}  // namespace strobe::cli
