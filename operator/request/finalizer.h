// The operator's finalizer on a request. The API server keeps a deleted request until its
// finalizers are removed.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "operator/base/names.h"
#include "operator/objects/request.h"

namespace strobe {

inline bool HasFinalizer(const ProfileRequest& request) {
  return std::find(request.finalizers.begin(), request.finalizers.end(), kFinalizer) !=
         request.finalizers.end();
}

inline std::vector<std::string> WithFinalizer(const ProfileRequest& request) {
  std::vector<std::string> finalizers = request.finalizers;
  finalizers.emplace_back(kFinalizer);
  return finalizers;
}

inline std::vector<std::string> WithoutFinalizer(const ProfileRequest& request) {
  std::vector<std::string> finalizers = request.finalizers;
  std::erase(finalizers, kFinalizer);
  return finalizers;
}

}  // namespace strobe
