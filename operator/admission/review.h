// admission.k8s.io/v1 AdmissionReview: the API server's question and our answer.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe {

struct AdmissionRequest {
  std::string uid{}, operation{};  // operation: CREATE, UPDATE, DELETE or CONNECT.
  std::string space{}, name{};     // The name is empty when the server will generate it.
  nlohmann::json user{};           // UserInfo.
  nlohmann::json object{}, old_object{};
  bool dry_run = false;
};

// A body that the API server may send: two objects of at most 3 MiB and what stands around them.
inline constexpr std::size_t kMostReviewBytes = std::size_t{7} << 20;

// InvalidArgument: not JSON, nested too deeply, too many values, or no AdmissionReview.
absl::StatusOr<AdmissionRequest> ParseReview(const std::string& body);

struct AdmissionAnswer {
  bool allowed = true;
  int code = 200;                                  // With a refusal: 403, or 400, 422...
  std::string message{};                           // Why not; people read it.
  std::vector<std::string> warnings{};             // kubectl shows them.
  nlohmann::json patch = nlohmann::json::array();  // RFC 6902; empty = none.
};

std::string AnswerReview(const std::string& uid, const AdmissionAnswer& answer);

}  // namespace strobe
