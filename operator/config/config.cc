#include "operator/config/config.h"

#include <algorithm>

#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/protocol/trainer_changes.h"
#include "common/text/parse_tuple.h"
#include "common/text/quantity.h"
#include "common/text/safe_text.h"
#include "common/yaml/fields.h"

namespace strobe::config {
namespace {

using yaml::Choice;
using yaml::Duration;
using yaml::Fields;
using yaml::Parser;
using yaml::Scalar;
using yaml::Setter;

constexpr std::size_t kMaxAlertTokens = 2;  // The one in use, and its successor.

// A name or key of an object, as the API server accepts it.
bool IsObjectName(const std::string& name) {
  return !name.empty() && name.size() <= 253 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}
bool IsVariableName(const std::string& name) {
  return !name.empty() && name.find('=') == std::string::npos &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

absl::Status CheckFile(std::string_view where, const InjectedFileConfig& file) {
  if (!file.secret.empty() && !file.config_map.empty())
    return absl::InvalidArgumentError(
        StrCat(where, " must name a Secret or a ConfigMap, not both"));
  const std::string& name = file.secret.empty() ? file.config_map : file.secret;
  if (name.empty()) return absl::OkStatus();
  if (!IsObjectName(name))
    return absl::InvalidArgumentError(StrCat(where, ": \"", name, "\" cannot be an object's name"));
  if (!IsSafeName(file.key))
    return absl::InvalidArgumentError(StrCat(where, ".key must be a key of the object"));
  return absl::OkStatus();
}

absl::Status CheckVariable(const InjectedVariableConfig& variable) {
  if (!IsVariableName(variable.name))
    return absl::InvalidArgumentError("each entry of injection.env needs the name of a variable");
  const std::string where = StrCat("injection.env: ", variable.name);
  for (const char* ours : {"POD_NAME", "STROBE_ROOTS"}) {
    if (variable.name == ours)
      return absl::InvalidArgumentError(StrCat(where, " is set by Strobe itself"));
  }
  RETURN_IF_ERROR(CheckFile(where, variable.from));
  const bool from_object = !variable.from.secret.empty() || !variable.from.config_map.empty();
  const int sources =
      (variable.value.empty() ? 0 : 1) + (variable.field.empty() ? 0 : 1) + (from_object ? 1 : 0);
  return sources <= 1 ? absl::OkStatus()
                      : absl::InvalidArgumentError(StrCat(where, " has more than one value"));
}

absl::Status CheckDisabled(const InjectionConfig& injection) {
  for (const std::string& name : injection.disable) {
    if (!IsTrainerChange(name)) {
      const std::vector<std::string> names(kTrainerChanges.begin(), kTrainerChanges.end());
      return absl::InvalidArgumentError(
          StrCat("injection.disable: \"", name, "\" is none of ", Join(names, ", ")));
    }
  }
  return absl::OkStatus();
}

// These objects are named in every injected pod, so that the API server would refuse all pods if
// one of the names were wrong.
absl::Status CheckInjectedObjects(const InjectionConfig& injection) {
  for (const std::string& secret : injection.image_pull_secrets) {
    if (!IsObjectName(secret)) {
      return absl::InvalidArgumentError(
          StrCat("injection.imagePullSecrets: \"", secret, "\" cannot be a Secret's name"));
    }
  }
  for (const InjectedVariableConfig& variable : injection.env)
    RETURN_IF_ERROR(CheckVariable(variable));
  if (!injection.storage_secret.empty() && !IsObjectName(injection.storage_secret))
    return absl::InvalidArgumentError("injection.storage.secret must be a Secret's name");
  RETURN_IF_ERROR(CheckFile("injection.storage.config", injection.storage_config));
  return CheckFile("injection.storage.caBundle", injection.storage_ca);
}

// These values are written into every injected pod, so that the API server would refuse all pods if
// one of them were wrong.
absl::Status CheckInjection(const InjectionConfig& injection) {
  for (const auto& [key, text] :
       {std::pair("cpu", &injection.cpu), std::pair("memory", &injection.memory)}) {
    if (!ParseQuantity(*text))
      return absl::InvalidArgumentError(
          StrCat("injection.", key, " must be a quantity such as 100m or 512Mi, or 0 for none"));
  }
  for (const auto& [key, text] :
       {std::pair("memoryLimit", &injection.memory_limit),
        std::pair("spoolSize", &injection.spool_size), std::pair("cpuLimit", &injection.cpu_limit),
        std::pair("agentMemory", &injection.agent_memory)}) {
    if (ParseQuantity(*text).value_or(0) <= 0)
      return absl::InvalidArgumentError(
          StrCat("injection.", key, " must be a quantity such as 100m or 512Mi"));
  }
  if (*ParseQuantity(injection.memory) > *ParseQuantity(injection.memory_limit))
    return absl::InvalidArgumentError("injection.memory must be at most injection.memoryLimit");
  if (injection.framework_port < 1 || injection.framework_port > 65535)
    return absl::InvalidArgumentError("injection.frameworkPort must be a port");
  if (injection.metrics_port < 1 || injection.metrics_port > 65535)
    return absl::InvalidArgumentError("injection.metricsPort must be a port");
  if (!injection.ephemeral_storage.empty() &&
      ParseQuantity(injection.ephemeral_storage).value_or(0) <= 0)
    return absl::InvalidArgumentError("injection.ephemeralStorage must be a quantity such as 2Gi");
  RETURN_IF_ERROR(CheckDisabled(injection));
  RETURN_IF_ERROR(CheckInjectedObjects(injection));
  return ParsePortRange(injection.host_network_ports).status();
}

// The entries of `env` are EnvVar objects of Kubernetes. Their `optional` has no effect: a missing
// object must never keep a pod from starting.
Fields VariableFields(const Parser& parser, InjectedVariableConfig& made) {
  const auto key_of = [&](std::string where, std::string& object) {
    return parser.Nested(std::move(where),
                         {{"name", Scalar(object, "a name")},
                          {"key", Scalar(made.from.key, "a key")},
                          {"optional", [](const YAML::Node&) { return absl::OkStatus(); }}});
  };
  const std::string from = "injection.env.valueFrom";
  return {
      {"name", Scalar(made.name, "a name")},
      {"value", Scalar(made.value, "a text")},
      {"valueFrom",
       parser.Nested(
           from, {{"secretKeyRef", key_of(from + ".secretKeyRef", made.from.secret)},
                  {"configMapKeyRef", key_of(from + ".configMapKeyRef", made.from.config_map)},
                  {"fieldRef", parser.Nested(from + ".fieldRef",
                                             {{"fieldPath", Scalar(made.field, "a field")}})}})}};
}

Fields InjectionFields(const Parser& parser, InjectionConfig& injection) {
  const auto file = [&parser](const std::string& where, InjectedFileConfig& target) {
    return parser.Nested(where, {{"secret", Scalar(target.secret, "a name")},
                                 {"configMap", Scalar(target.config_map, "a name")},
                                 {"key", Scalar(target.key, "a key")}});
  };
  const Setter variables = [&parser, &injection](const YAML::Node& node) {
    return parser.List(node, "injection.env",
                       [&]() { return VariableFields(parser, injection.env.emplace_back()); });
  };
  const Fields storage = {{"secret", Scalar(injection.storage_secret, "a name")},
                          {"config", file("injection.storage.config", injection.storage_config)},
                          {"caBundle", file("injection.storage.caBundle", injection.storage_ca)}};
  return {{"image", Scalar(injection.image, "an image")},
          {"pullPolicy", Choice(injection.pull_policy, {"", "Always", "IfNotPresent", "Never"})},
          {"viewerImage", Scalar(injection.viewer_image, "an image")},
          {"cpu", Scalar(injection.cpu, "a quantity")},
          {"memory", Scalar(injection.memory, "a quantity")},
          {"memoryLimit", Scalar(injection.memory_limit, "a quantity")},
          {"spoolSize", Scalar(injection.spool_size, "a quantity")},
          {"cpuLimit", Scalar(injection.cpu_limit, "a quantity")},
          {"alwaysLimitCpu", Scalar(injection.always_limit_cpu, "true or false")},
          {"mode", Choice(injection.mode, {"native", "container"})},
          {"hostNetworkPorts", Scalar(injection.host_network_ports, "FIRST-LAST")},
          {"agentMemory", Scalar(injection.agent_memory, "a quantity")},
          {"user", Scalar(injection.user, "a whole number")},
          {"frameworkPort", Scalar(injection.framework_port, "a port")},
          {"metricsPort", Scalar(injection.metrics_port, "a port")},
          {"ephemeralStorage", Scalar(injection.ephemeral_storage, "a quantity")},
          {"disable", Scalar(injection.disable, "a list of names")},
          {"imagePullSecrets", Scalar(injection.image_pull_secrets, "a list of names")},
          {"env", variables},
          {"storage", parser.Nested("injection.storage", storage)}};
}

absl::Status CheckAlertReceiver(const AlertReceiverConfig& receiver) {
  if (receiver.listen.empty()) return absl::OkStatus();
  if (receiver.token_files.empty() && receiver.client_authority.empty())
    return absl::InvalidArgumentError(
        "alertReceiver.listen needs alertReceiver.tokenFiles or alertReceiver.clientAuthority, "
        "because otherwise anyone who can reach the port could start captures");
  if (receiver.token_files.size() > kMaxAlertTokens)
    return absl::InvalidArgumentError("alertReceiver.tokenFiles has more than two files");
  if (receiver.certificate.empty() != receiver.key.empty())
    return absl::InvalidArgumentError(
        "alertReceiver.certificate and alertReceiver.key go together");
  if (receiver.client_authority.empty() && !receiver.client_names.empty())
    return absl::InvalidArgumentError(
        "alertReceiver.clientNames needs alertReceiver.clientAuthority");
  return absl::OkStatus();
}

absl::StatusOr<OperatorConfig> FromYaml(std::string_view text, const Parser& parser) {
  OperatorConfig config;
  const auto map = [&parser](std::string where, Fields fields) {
    return parser.Nested(std::move(where), std::move(fields));
  };
  const Fields lease = {{"enabled", Scalar(config.lease.enabled, "true or false")},
                        {"namespace", Scalar(config.lease.ns, "a text")},
                        {"name", Scalar(config.lease.name, "a text")},
                        {"duration", Duration(config.lease.duration)},
                        {"renewDeadline", Duration(config.lease.renew_deadline)},
                        {"retryPeriod", Duration(config.lease.retry_period)}};
  const Fields webhook = {{"listen", Scalar(config.webhook.listen, "host:port")},
                          {"configuration", Scalar(config.webhook.configuration, "a name")},
                          {"certificate", Scalar(config.webhook.certificate, "a file")},
                          {"key", Scalar(config.webhook.key, "a file")},
                          {"clientAuthority", Scalar(config.webhook.client_authority, "a file")},
                          {"clientNames", Scalar(config.webhook.client_names, "a list of names")},
                          {"drainTime", Duration(config.webhook.drain_time)}};
  const Fields tls = {{"enrollListen", Scalar(config.tls.enroll_listen, "host:port")},
                      {"secret", Scalar(config.tls.secret, "a name")},
                      {"secretNamespace", Scalar(config.tls.ns, "a name")},
                      {"service", Scalar(config.tls.service, "a name")},
                      {"extraNames", Scalar(config.tls.extra_names, "a list of names")},
                      {"authorityLifetime", Duration(config.tls.authority_lifetime)},
                      {"settle", Duration(config.tls.settle)},
                      {"certificateLifetime", Duration(config.tls.certificate_lifetime)}};
  AlertReceiverConfig& receiver = config.alert_receiver;
  const Fields alerts = {{"listen", Scalar(receiver.listen, "host:port")},
                         {"tokenFiles", Scalar(receiver.token_files, "a list of files")},
                         {"certificate", Scalar(receiver.certificate, "a file")},
                         {"key", Scalar(receiver.key, "a file")},
                         {"clientAuthority", Scalar(receiver.client_authority, "a file")},
                         {"clientNames", Scalar(receiver.client_names, "a list of names")}};
  RETURN_IF_ERROR(parser.Read(
      text,
      {{"http", map("http", {{"listen", Scalar(config.http_listen, "host:port")}})},
       {"watch", map("watch", {{"namespace", Scalar(config.watch_namespace, "a text")},
                               {"timeout", Duration(config.watch_timeout)}})},
       {"maxConcurrentReconciles", Scalar(config.max_concurrent_reconciles, "a whole number")},
       {"insecurePlaintext", Scalar(config.insecure_plaintext, "true or false")},
       {"lease", map("lease", lease)},
       {"webhook", map("webhook", webhook)},
       {"tls", map("tls", tls)},
       {"injection", map("injection", InjectionFields(parser, config.injection))},
       {"state", map("state", {{"configMap", Scalar(config.state_config_map, "a name")}})},
       {"allowWithoutPolicy", Scalar(config.allow_without_policy, "true or false")},
       {"notify",
        map("notify", {{"url", Scalar(config.notify.url, "a URL")},
                       {"format", Choice(config.notify.format, {"CloudEvents", "Grafana"})},
                       {"source", Scalar(config.notify.source, "a name")},
                       {"directory", Scalar(config.notify.directory, "a directory")}})},
       {"alertReceiver", map("alertReceiver", alerts)},
       {"viewer", map("viewer", {{"url", Scalar(config.viewer_url, "a URL")}})},
       {"log",
        map("log", {{"level", Choice(config.log_level, {"debug", "info", "warning", "error"})},
                    {"format", Choice(config.log_format, {"text", "json"})}})}}));
  if (config.max_concurrent_reconciles < 1 || config.max_concurrent_reconciles > 64)
    return absl::InvalidArgumentError("maxConcurrentReconciles must be from 1 to 64");
  if (config.webhook.certificate.empty() != config.webhook.key.empty())
    return absl::InvalidArgumentError("webhook.certificate and webhook.key go together");
  if (config.webhook.client_authority.empty() && !config.webhook.client_names.empty())
    return absl::InvalidArgumentError("webhook.clientNames needs webhook.clientAuthority");
  RETURN_IF_ERROR(CheckAlertReceiver(config.alert_receiver));
  RETURN_IF_ERROR(CheckInjection(config.injection));
  if (config.watch_timeout < std::chrono::seconds(1))
    return absl::InvalidArgumentError("watch.timeout must be at least 1s");
  return config;
}

}  // namespace

absl::StatusOr<PortRange> ParsePortRange(const std::string& text) {
  PortRange range;
  if (!ParseTuple(text, "-", range.first, range.last) || range.first < 1 || range.last > 65535 ||
      range.first > range.last) {
    return absl::InvalidArgumentError(
        "injection.hostNetworkPorts must be two ports, such as 20000-29999");
  }
  return range;
}

absl::StatusOr<OperatorConfig> ParseConfig(std::string_view text, std::string_view file) {
  return FromYaml(text, Parser(file));
}

absl::StatusOr<OperatorConfig> LoadConfig(const std::string& file) {
  const absl::StatusOr<std::string> text = ReadTextFile(file);
  if (!text.ok())
    return absl::InvalidArgumentError(StrCat("cannot read the configuration file ", file));
  return ParseConfig(*text, file);
}

}  // namespace strobe::config
