#include "sidecar/source/base/server_risks.h"

#include <unistd.h>

#include "common/base/strings.h"
#include "common/text/ip_text.h"

namespace strobe::source {

bool SparesGpus(const ServerRisks& risks, std::string_view address) {
  return !risks.gpu_tracing_by_servers && IsLoopback(address) &&
         access(risks.nvidia_driver.c_str(), F_OK) == 0;
}

std::string SparedNote(std::string_view who, std::string_view why) {
  return StrCat(who, " was asked for no devices: ", why);
}

}  // namespace strobe::source
