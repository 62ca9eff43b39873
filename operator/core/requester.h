// Who asked for a capture, as the API server authenticated them.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace strobe {

struct Requester {
  std::string username{}, uid{};
  std::vector<std::string> groups{};
  std::map<std::string, std::vector<std::string>> extra{};
};

}  // namespace strobe
