#include "operator/objects/dump.h"

namespace strobe::kube {

std::string Dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace strobe::kube
