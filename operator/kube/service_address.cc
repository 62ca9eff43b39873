#include "operator/kube/service_address.h"

#include "common/base/log.h"
#include "common/base/strings.h"
#include "operator/base/json_fields.h"

namespace strobe::kube {
namespace {

constexpr Nanos kAskAgain = std::chrono::seconds(60);
constexpr Nanos kAskAgainAfterFailure = std::chrono::seconds(5);
constexpr Nanos kAnswerWithin = std::chrono::milliseconds(500);

}  // namespace

ServiceAddress::ServiceAddress(const Clock& clock, Client& client, const std::string& ns,
                               const std::string& name)
    : clock_(clock),
      client_(client),
      path_(StrCat("/api/v1/namespaces/", ns, "/services/", name)) {}

std::string ServiceAddress::Get() {
  {
    MutexLock lock(&mutex_);
    const MonoTime now = clock_.MonoNow();
    if (asked_at_ && now - *asked_at_ < (ip_.empty() ? kAskAgainAfterFailure : kAskAgain))
      return ip_;
    asked_at_ = now;  // Meanwhile other threads use the last known address.
  }
  const absl::StatusOr<Json> service = client_.Get(path_, kAnswerWithin);
  MutexLock lock(&mutex_);
  if (service.ok()) {
    ip_ = TextOf(Member(*service, "spec"), "clusterIP");
    if (ip_ == "None") ip_.clear();
  } else if (ip_.empty()) {
    LogWarning("the address of our Service is not known; pods without cluster DNS cannot enroll",
               {{"error", MessageOf(service.status())}});
  }
  return ip_;
}

}  // namespace strobe::kube
