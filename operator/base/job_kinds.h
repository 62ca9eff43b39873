// The kinds of jobs that a request can name, and where the objects and the pods of each are found.
// Pure.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace strobe::kube {

struct JobRef {
  std::string api_version{}, kind{}, name{};  // Without api_version, the first of that kind.
};

struct JobKind {
  enum class Pods {
    kLabelled,  // Each pod has JobKind::label, whose value is the job's name.
    kOwned,     // The job owns its pods directly.
    // ReplicaSets own them, each with the job's name and the label kTemplateHashLabel of its pods.
    kOfReplicaSets,
    kOfAnother,  // They are pods of another object, which the job's own object names.
  };

  std::string_view kind, group;  // The API group of JobRef.api_version.
  // Where the object that defines the job's size is: its group, its versions in the order in which
  // they are tried if the user names none, and its resource.
  std::string_view read_group, versions, plural;
  Pods pods = Pods::kLabelled;
  std::string_view label{};
};

// All kinds. If two have the same name, the first is meant where no group is given.
std::span<const JobKind> AllJobKinds();

// Null if the kind is not known, or not in the group of `job.api_version`.
const JobKind* FindJobKind(const JobRef& job);

// Whether an object of this kind and name owns pods of the job, which have `template_hash` as their
// label kTemplateHashLabel.
bool OwnsPods(const JobRef& job, std::string_view kind, std::string_view name,
              std::string_view template_hash);

// Why FindJobKind() gave null, human-readable, and which kinds there are.
std::string UnknownJobKind(const JobRef& job);

}  // namespace strobe::kube
