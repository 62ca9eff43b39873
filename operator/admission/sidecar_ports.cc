#include "operator/admission/sidecar_ports.h"

#include <functional>
#include <random>
#include <set>

#include "common/base/strings.h"
#include "operator/admission/annotation_values.h"
#include "operator/base/json_fields.h"
#include "operator/base/names.h"
#include "operator/job/pod.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;

using kube::Member;
using kube::TextOf;

constexpr int kWorkerPort = 9470;
// The number of ports to choose from: enough that one is free even on a node with hundreds of taken
// ports.
constexpr std::size_t kHostChoices = 4;

// The ports in use in one pod, whose containers share an address.
class Ports {
 public:
  // Starts with the ports that the pod's own containers declare.
  explicit Ports(const Json& spec) {
    for (const Json* container : job::OtherContainers(spec)) {
      const Json& ports = kube::Member(*container, "ports");
      for (std::size_t i = 0; ports.is_array() && i < ports.size(); ++i) {
        const Json& port = kube::Member(ports[i], "containerPort");
        if (port.is_number_integer()) taken_.insert(port.get<int>());
      }
    }
  }
  bool Take(int port) { return taken_.insert(port).second; }
  int TakeFrom(int first) {
    while (!Take(first)) ++first;
    return first;
  }

 private:
  std::set<int> taken_;
};

// Returns "localhost:9012,localhost:9013" for "9012,9013".
std::string FrameworkAddresses(const std::string& framework_ports, Ports& ports) {
  std::string addresses;
  for (const std::string& port : Split(framework_ports, ',')) {
    ports.Take(std::stoi(port));
    addresses += StrCat(addresses.empty() ? "" : ",", "localhost:", port);
  }
  return addresses;
}

std::vector<int> RandomPorts(const InjectionSettings& settings, const std::string& seed,
                             Ports& ports) {
  std::mt19937_64 random(std::hash<std::string>{}(seed));
  std::uniform_int_distribution<int> any(settings.first_host_port, settings.last_host_port);
  std::vector<int> chosen;
  // Without TLS the operator could not tell one sidecar from another, so there is one port only. It
  // is declared, so the scheduler keeps it free of other pods. The tries are bounded, because a
  // narrow range may have fewer free ports than are wanted.
  const std::size_t choices = settings.enrollment.empty() ? 1 : kHostChoices;
  for (int tries = 0; tries < 100 && chosen.size() < choices; ++tries) {
    const int port = any(random);
    if (ports.Take(port)) chosen.push_back(port);
  }
  if (chosen.empty()) chosen.push_back(ports.TakeFrom(settings.first_host_port));
  return chosen;
}

// The annotation's port; 0 if there is none that can be used.
int ChosenPort(PodAnnotations& annotations, const char* name, Ports& ports) {
  const std::string port = annotations.Get(name, "", IsPort, "a port");
  if (port.empty()) return 0;
  if (ports.Take(std::stoi(port))) return std::stoi(port);
  annotations.Ignore(name, port, "is a port that something else in this pod uses");
  return 0;
}

}  // namespace

bool UsesHostNetwork(const Json& spec) { return kube::Member(spec, "hostNetwork") == Json(true); }

SidecarPorts ChoosePorts(const Json& spec, const InjectionSettings& settings,
                         const std::string& framework_ports, const std::string& seed,
                         PodAnnotations& annotations) {
  Ports taken(spec);
  SidecarPorts ports;
  ports.framework = FrameworkAddresses(framework_ports, taken);
  const int captures = ChosenPort(annotations, "port", taken);
  const bool host = UsesHostNetwork(spec);
  if (captures != 0)
    ports.captures = {captures};
  else if (host)
    ports.captures = RandomPorts(settings, seed, taken);
  else
    ports.captures = {taken.TakeFrom(kWorkerPort)};
  ports.metrics = ChosenPort(annotations, "metrics-port", taken);
  if (ports.metrics == 0 && !host) ports.metrics = taken.TakeFrom(settings.metrics_port);
  ports.compat = ChosenPort(annotations, "compat-port", taken);
  return ports;
}

Json DeclaredPorts(const SidecarPorts& ports) {
  Json declared = Json::array();
  const auto declare = [&](const char* name, int port) {
    declared.push_back({{"name", name}, {"containerPort", port}, {"protocol", "TCP"}});
  };
  if (ports.captures.size() == 1) declare(kube::kSidecarPort, ports.captures.front());
  if (ports.metrics != 0) declare("strobe-metrics", ports.metrics);
  return declared;
}

}  // namespace strobe::admission
