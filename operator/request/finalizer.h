// The operator's finalizer on a request. The API server keeps a deleted request until its
// finalizers are removed.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "operator/base/names.h"
#include "operator/objects/request.h"

namespace strobe::request {

inline bool HasFinalizer(const objects::ProfileRequest& request) {
  return std::find(request.finalizers.begin(), request.finalizers.end(), kube::kFinalizer) !=
         request.finalizers.end();
}

inline std::vector<std::string> WithFinalizer(const objects::ProfileRequest& request) {
  std::vector<std::string> finalizers = request.finalizers;
  finalizers.emplace_back(kube::kFinalizer);
  return finalizers;
}

inline std::vector<std::string> WithoutFinalizer(const objects::ProfileRequest& request) {
  std::vector<std::string> finalizers = request.finalizers;
  std::erase(finalizers, kube::kFinalizer);
  return finalizers;
}

}  // namespace strobe::request
