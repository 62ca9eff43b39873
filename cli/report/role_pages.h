// What the report of a run says whose workers have several roles, such as prefill and decode: each
// role by itself, because their steps have nothing to do with each other. Pure.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/report/report_document.h"
#include "cli/report/report_pages.h"
#include "collector/trace/digest/digest.h"

namespace strobe::cli {

// In the order of the roles; within a role in that of the digests.
using DigestsByRole = std::map<std::string, std::vector<digest::Digest>>;
DigestsByRole DivideByRole(std::vector<digest::Digest> digests);

// The page of RunPage for each role, below each other.
ReportDocument RolesPage(const std::string& place, const DigestsByRole& roles,
                         const PageOptions& options);

// A list with the stragglers of each role, as in report.json.
nlohmann::ordered_json RoleStragglersJson(const DigestsByRole& roles);

}  // namespace strobe::cli
