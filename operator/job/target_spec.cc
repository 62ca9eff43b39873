#include "operator/job/target_spec.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/base/hash.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::job {
namespace {

// The limit on a target's text, because statuses and messages contain it.
constexpr std::size_t kMaxTargetBytes = 200;

std::string Bounded(std::string text) {
  if (text.size() <= kMaxTargetBytes) return text;
  return StrCat(CutUtf8(text, kMaxTargetBytes), "#", JobHash(text));
}

}  // namespace

std::string JobText(const kube::JobRef& job) {
  const kube::JobKind* meant = kube::FindJobKind({"", job.kind, job.name});
  const std::string group = job.api_version.substr(0, job.api_version.find('/'));
  const bool usual = job.api_version.empty() || (meant != nullptr && meant->group == group);
  return usual ? StrCat(job.kind, "/", job.name) : StrCat(job.kind, ".", group, "/", job.name);
}

std::string TargetText(const TargetSpec& target) {
  if (target.job) return JobText(*target.job);
  std::vector<std::string> pods = target.pods;
  std::sort(pods.begin(), pods.end());
  pods.erase(std::unique(pods.begin(), pods.end()), pods.end());
  return Bounded(pods.empty() ? StrCat("Selector/", target.selector)
                              : StrCat("Pod/", Join(pods, ",")));
}

std::string TextOfTargets(std::span<const TargetSpec> targets) {
  if (targets.size() == 1) return TargetText(targets.front());
  std::vector<std::string> texts;
  for (const TargetSpec& target : targets)
    texts.push_back(StrCat(target.name, "=", TargetText(target)));
  return Bounded(Join(texts, ","));
}

std::string JobHash(std::string_view job) { return absl::StrFormat("%016x", Fnv1a(job)); }

}  // namespace strobe::job
