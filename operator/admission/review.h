// Parses admission.k8s.io/v1 AdmissionReviews and writes the answers.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe::admission {

struct AdmissionRequest {
  std::string uid{}, operation{};  // operation: CREATE, UPDATE, DELETE or CONNECT.
  std::string ns{}, name{};        // The name is empty when the server will generate it.
  nlohmann::json user{};           // UserInfo.
  nlohmann::json object{}, old_object{};
  bool dry_run = false;
  std::string caller{};  // The network that sent the review, which is no part of it.
};

// The largest body that the API server may send: two objects of at most 3 MiB and the surrounding
// fields.
inline constexpr std::size_t kMaxReviewBytes = std::size_t{7} << 20;

// A larger body takes much memory when it is parsed.
inline constexpr std::size_t kBigReviewBytes = std::size_t{512} << 10;

// InvalidArgument if the body is not JSON, is nested too deeply, has too many values, or is not an
// AdmissionReview.
absl::StatusOr<AdmissionRequest> ParseReview(const std::string& body);

struct Answer {
  bool allowed = true;
  int code = 200;                       // HTTP status of a refusal, such as 403, 400 or 422.
  std::string message{};                // The reason for a refusal, human-readable.
  std::vector<std::string> warnings{};  // Shown by kubectl.
  nlohmann::json patch = nlohmann::json::array();  // RFC 6902; empty if there is none.
};

Answer Refusal(int code, std::string message);

std::string AnswerReview(const std::string& uid, const Answer& answer);

}  // namespace strobe::admission
