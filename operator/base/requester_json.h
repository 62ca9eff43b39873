// Converts the requester's identity between the API server's reviews, Strobe's annotation and core
// values.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "operator/base/admission_seal.h"
#include "operator/base/names.h"
#include "operator/base/run_creator.h"

namespace strobe::kube {

// `user_info` is a UserInfo of authentication.k8s.io.
Requester ParseRequester(const nlohmann::json& user_info);
nlohmann::json RequesterToJson(const Requester& requester);

// Returns the value of kRequesterAnnotation for a request that is being created in `ns`. `creator`
// is the UID of the schedule or trigger whose run it is; empty if a person asks. Only the operator
// itself may give one: what the webhooks are sent can come from anybody.
std::string SealRequester(const nlohmann::json& object, const std::string& ns,
                          const Requester& requester, WallTime now, const std::string& key,
                          const std::string& creator = "");

// Like SealRequester, for a ProfileSchedule or ProfileTrigger. `uid` is empty while it is being
// created; a change is sealed for the object that has this UID.
std::string SealCreator(CreatorKind kind, const nlohmann::json& object, const std::string& ns,
                        const Requester& requester, WallTime now, const std::string& key,
                        const std::string& uid);
// The annotation of a schedule or trigger that the operator has admitted, sealed by this key. It
// stands by itself, however old the webhooks are, and proves the same otherwise. Not for webhooks.
std::string SealAdmitted(const RunCreator& creator, const nlohmann::json& object,
                         const std::string& key);

// The content of an object's annotation.
struct StampedRequester {
  Requester requester{};
  SealedAdmission admission{};
  std::string seal{};
  std::string uid{};      // That of the object whose change was sealed; empty = its creation was.
  bool admitted = false;  // By SealAdmitted.
  std::string creator{};  // As for SealRequester.
};
// Nothing if there is no annotation or it cannot be parsed. Does not check the seal.
std::optional<StampedRequester> RequesterOf(const nlohmann::json& object, const std::string& ns);
std::optional<StampedRequester> CreatorRequesterOf(CreatorKind kind, const nlohmann::json& object,
                                                   const std::string& ns);

// The UID of the schedule or trigger whose run the request is, as the operator has sealed it; empty
// if it is nobody's. Owner references, names and labels prove nothing: any user who may create
// requests chooses them.
std::string SealedCreatorOf(const nlohmann::json& request, std::span<const std::string> keys);

// Whether the annotation says that it is somebody's run, as that of a user's own request never does
// while the webhooks are installed. Does not check the seal, so that it is cheap.
bool NamesCreator(const std::string& annotation);

// The annotation of a request with a seal by another key, which proves the same.
std::string Resealed(const std::string& annotation, const SealedAdmission& admission,
                     const std::string& key);

}  // namespace strobe::kube
