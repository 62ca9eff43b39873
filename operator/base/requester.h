// The user who created a request, as authenticated by the API server (userInfo).
#pragma once
#include <map>
#include <string>
#include <vector>

namespace strobe::kube {

struct Requester {
  std::string username{}, uid{};
  std::vector<std::string> groups{};
  std::map<std::string, std::vector<std::string>> extra{};
};

}  // namespace strobe::kube
