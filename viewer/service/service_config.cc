#include "viewer/service/service_config.h"

#include <algorithm>
#include <set>

#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/ip_text.h"
#include "common/text/quantity.h"
#include "common/text/safe_text.h"
#include "common/yaml/fields.h"

namespace strobe::viewer {
namespace {

using yaml::Choice;
using yaml::Duration;
using yaml::Fields;
using yaml::Parser;
using yaml::Scalar;
using yaml::Setter;

constexpr std::size_t kMaxLogdirs = 64;  // Each has a thread that lists its runs.
constexpr Nanos kMaxAccessCache = std::chrono::minutes(5);

Setter Bytes(std::uint64_t& target) {
  return [&target](const YAML::Node& node) -> absl::Status {
    const auto bytes = ParseBytes(node.IsScalar() ? node.Scalar() : "");
    if (!bytes) return absl::OutOfRangeError("must be a quantity of bytes such as 16Gi");
    target = *bytes;
    return absl::OkStatus();
  };
}

bool IsNamespaceName(const std::string& name) {
  return !name.empty() && name.size() <= 63 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

// A header's name, as RFC 9110 allows it.
bool IsHeaderName(const std::string& name) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

absl::Status CheckLogdirs(std::vector<ServedLogdir>& logdirs) {
  if (logdirs.empty()) return absl::InvalidArgumentError("logdirs must list at least one logdir");
  if (logdirs.size() > kMaxLogdirs)
    return absl::InvalidArgumentError(StrCat("logdirs may list at most ", kMaxLogdirs));
  std::set<std::string> names, urls;
  for (ServedLogdir& logdir : logdirs) {
    if (logdir.url.empty()) return absl::InvalidArgumentError("each entry of logdirs needs a url");
    if (!IsNamespaceName(logdir.ns))
      return absl::InvalidArgumentError(StrCat("logdirs: ", logdir.url,
                                               " needs the namespace that it belongs to: users who "
                                               "may get ProfileRequests there may see its runs"));
    if (logdir.name.empty()) logdir.name = logdir.ns;
    if (!IsSafeName(logdir.name, 63))
      return absl::InvalidArgumentError(StrCat("logdirs: \"", logdir.name, "\" cannot be a name"));
    if (!names.insert(logdir.name).second)
      return absl::InvalidArgumentError(
          StrCat("logdirs: two are named ", logdir.name, "; give each a name"));
    if (!urls.insert(logdir.url).second)
      return absl::InvalidArgumentError(StrCat("logdirs: ", logdir.url,
                                               " is listed twice; a logdir belongs to one "
                                               "namespace"));
  }
  return absl::OkStatus();
}

// The headers name the user. Any program that can connect can send them, so only the proxy may be
// able to.
absl::Status CheckTrust(const ServeConfig& config) {
  const ServeTls& tls = config.tls;
  if (tls.certificate.empty() != tls.key.empty())
    return absl::InvalidArgumentError("tls.certificate and tls.key go together");
  if (!tls.client_authority.empty() && !tls.enabled())
    return absl::InvalidArgumentError("tls.clientAuthority needs tls.certificate and tls.key");
  if (tls.client_authority.empty() != tls.client_names.empty())
    return absl::InvalidArgumentError(
        "tls.clientAuthority and tls.clientNames go together: the names say which of the "
        "authority's certificates is the proxy's");
  if (!IsLoopback(config.listen) && tls.client_authority.empty())
    return absl::InvalidArgumentError(
        StrCat("listen: ", config.listen,
               " can be reached from other machines, which could then name any user; listen on "
               "127.0.0.1 with the authenticating proxy beside it, or set tls.certificate, "
               "tls.key, tls.clientAuthority and tls.clientNames so that only the proxy can "
               "connect"));
  return absl::OkStatus();
}

absl::Status Check(ServeConfig& config) {
  RETURN_IF_ERROR(CheckLogdirs(config.logdirs));
  RETURN_IF_ERROR(CheckTrust(config));
  for (const auto& [key, name] : {std::pair("userHeader", &config.identity.user),
                                  std::pair("groupsHeader", &config.identity.groups)}) {
    if (!IsHeaderName(*name))
      return absl::InvalidArgumentError(StrCat("identity.", key, " must be a header's name"));
  }
  if (config.identity.user == config.identity.groups)
    return absl::InvalidArgumentError("identity.userHeader and groupsHeader must differ");
  if (config.access_cache <= Nanos{0} || config.access_cache > kMaxAccessCache)
    return absl::InvalidArgumentError("accessCache must be more than 0 and at most 5m");
  if (config.open_runs < 1 || config.open_runs > 1000)
    return absl::InvalidArgumentError("openRuns must be from 1 to 1000");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ServeConfig> ParseServeConfig(std::string_view text, std::string_view file) {
  ServeConfig config;
  const Parser parser(file);
  const Setter logdirs = [&](const YAML::Node& node) {
    return parser.List(node, "logdirs", [&]() -> Fields {
      ServedLogdir& made = config.logdirs.emplace_back();
      return {{"url", Scalar(made.url, "a URL")},
              {"namespace", Scalar(made.ns, "a namespace")},
              {"name", Scalar(made.name, "a name")}};
    });
  };
  IdentityHeaders& identity = config.identity;
  const Fields identity_fields = {{"userHeader", Scalar(identity.user, "a header's name")},
                                  {"groupsHeader", Scalar(identity.groups, "a header's name")},
                                  {"userPrefix", Scalar(identity.user_prefix, "a text")},
                                  {"groupsPrefix", Scalar(identity.groups_prefix, "a text")}};
  const Fields tls = {{"certificate", Scalar(config.tls.certificate, "a file")},
                      {"key", Scalar(config.tls.key, "a file")},
                      {"clientAuthority", Scalar(config.tls.client_authority, "a file")},
                      {"clientNames", Scalar(config.tls.client_names, "a list of names")}};
  const Fields cache = {{"directory", Scalar(config.cache_directory, "a folder")},
                        {"maxBytes", Bytes(config.cache_bytes)}};
  const Fields log = {{"level", Choice(config.log_level, {"debug", "info", "warning", "error"})},
                      {"format", Choice(config.log_format, {"text", "json"})}};
  RETURN_IF_ERROR(parser.Read(
      text,
      {{"logdirs", logdirs},
       {"listen", Scalar(config.listen, "host:port")},
       {"health", parser.Nested("health", {{"listen", Scalar(config.health_listen, "host:port")}})},
       {"identity", parser.Nested("identity", identity_fields)},
       {"tls", parser.Nested("tls", tls)},
       {"hosts", Scalar(config.hosts, "a list of names")},
       {"cache", parser.Nested("cache", cache)},
       {"accessCache", Duration(config.access_cache)},
       {"storageConfig", Scalar(config.storage_config, "a file")},
       {"openRuns", Scalar(config.open_runs, "a whole number")},
       {"log", parser.Nested("log", log)}}));
  RETURN_IF_ERROR(Check(config));
  return config;
}

absl::StatusOr<ServeConfig> LoadServeConfig(const std::string& file) {
  const absl::StatusOr<std::string> text = ReadTextFile(file);
  if (!text.ok())
    return absl::InvalidArgumentError(StrCat("cannot read the configuration file ", file));
  return ParseServeConfig(*text, file);
}

}  // namespace strobe::viewer
