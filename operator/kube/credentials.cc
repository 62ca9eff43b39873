#include "operator/kube/credentials.h"

#include <yaml-cpp/yaml.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "common/base/files.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/ip_text.h"

namespace strobe::kube {
namespace {

constexpr char kMounted[] = "/var/run/secrets/kubernetes.io/serviceaccount/";
constexpr Nanos kTokenAge = std::chrono::seconds(50);

// Returns the entry with this name from a kubeconfig list, and of it the part below `kind`.
YAML::Node Named(const YAML::Node& list, const std::string& name, const char* kind) {
  for (const YAML::Node& entry : list) {
    if (entry["name"] && entry["name"].as<std::string>() == name) return entry[kind];
  }
  return YAML::Node(YAML::NodeType::Undefined);
}

absl::StatusOr<FileOrData> Value(const YAML::Node& node, const std::string& field,
                                 const std::filesystem::path& beside) {
  FileOrData value;
  if (!node) return value;
  if (const YAML::Node data = node[field + "-data"]) {
    if (!absl::Base64Unescape(data.as<std::string>(), &value.data)) {
      return absl::InvalidArgumentError(StrCat(field, "-data is not base64"));
    }
  } else if (const YAML::Node file = node[field]) {
    // Relative paths refer to the kubeconfig's directory.
    value.file = (beside / file.as<std::string>()).native();
  }
  return value;
}

// Refuses what would change who the caller is, or whom it talks to, and is not carried out here. If
// it were ignored, a user who impersonates somebody would act as himself.
absl::Status CheckFields(const YAML::Node& node, const char* kind,
                         std::initializer_list<const char*> unsupported, const char* remedy) {
  for (const char* field : unsupported) {
    if (node[field] && !node[field].IsNull())
      return absl::InvalidArgumentError(
          StrCat("field ", field, " of a ", kind, " is not supported; ", remedy));
  }
  return absl::OkStatus();
}

absl::StatusOr<Credentials> FromYaml(const YAML::Node& root, const std::filesystem::path& beside) {
  const YAML::Node current = root["current-context"];
  if (!current || current.as<std::string>().empty())
    return absl::InvalidArgumentError("current-context is not set");
  const YAML::Node context = Named(root["contexts"], current.as<std::string>(), "context");
  if (!context)
    return absl::InvalidArgumentError(StrCat("there is no context ", current.as<std::string>()));
  const YAML::Node cluster =
      Named(root["clusters"], context["cluster"].as<std::string>(""), "cluster");
  if (!cluster || !cluster["server"])
    return absl::InvalidArgumentError("the context's cluster has no server");
  Credentials credentials;
  credentials.server = cluster["server"].as<std::string>();
  credentials.ns = context["namespace"].as<std::string>("default");
  ASSIGN_OR_RETURN(credentials.ca, Value(cluster, "certificate-authority", beside));
  if (cluster["insecure-skip-tls-verify"].as<bool>(false)) {
    return absl::InvalidArgumentError(
        "insecure-skip-tls-verify is not supported; give certificate-authority");
  }
  RETURN_IF_ERROR(CheckFields(cluster, "cluster", {"proxy-url", "tls-server-name"},
                              "give a server that can be reached directly and has its name in its "
                              "certificate"));
  const YAML::Node user = Named(root["users"], context["user"].as<std::string>(""), "user");
  if (!user) return credentials;
  if (user["exec"] || user["auth-provider"]) {
    return absl::InvalidArgumentError(
        "users with exec or auth-provider are not supported; use a token, tokenFile or client "
        "certificate");
  }
  RETURN_IF_ERROR(CheckFields(
      user, "user", {"as", "as-uid", "as-groups", "as-user-extra", "username", "password"},
      "use a token, tokenFile or client certificate of that user"));
  ASSIGN_OR_RETURN(credentials.certificate, Value(user, "client-certificate", beside));
  ASSIGN_OR_RETURN(credentials.key, Value(user, "client-key", beside));
  if (user["tokenFile"])
    credentials.token.file = (beside / user["tokenFile"].as<std::string>()).native();
  else if (user["token"])
    credentials.token.data = user["token"].as<std::string>();
  return credentials;
}

absl::Status CheckServer(const Credentials& credentials) {
  if (credentials.server.starts_with("https://")) return absl::OkStatus();
  if (!credentials.server.starts_with("http://")) {
    return absl::InvalidArgumentError(
        StrCat("server \"", credentials.server, "\" must begin with https:// or http://"));
  }
  if (!credentials.token.empty()) {
    return absl::InvalidArgumentError("a token is not sent over plain http; use an https server");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FileOrData::Read() const {
  if (file.empty()) return data;
  absl::StatusOr<std::string> text = ReadTextFile(file);
  if (!text.ok()) return absl::UnauthenticatedError(text.status().message());
  return text;
}

absl::StatusOr<Credentials> LoadKubeconfig(const std::string& path) {
  absl::StatusOr<Credentials> credentials;
  try {
    credentials = FromYaml(YAML::LoadFile(path), std::filesystem::path(path).parent_path());
  } catch (const YAML::Exception& error) {
    credentials = absl::InvalidArgumentError(error.what());
  }
  if (credentials.ok()) {
    if (const absl::Status status = CheckServer(*credentials); !status.ok()) credentials = status;
  }
  if (!credentials.ok()) {
    return absl::InvalidArgumentError(
        StrCat("kubeconfig ", path, ": ", MessageOf(credentials.status())));
  }
  return credentials;
}

absl::StatusOr<Credentials> LoadInCluster() {
  const char* host = std::getenv("KUBERNETES_SERVICE_HOST");
  const char* port = std::getenv("KUBERNETES_SERVICE_PORT");
  if (host == nullptr || port == nullptr)
    return absl::NotFoundError("not in a cluster: KUBERNETES_SERVICE_HOST is not set");
  Credentials credentials;
  credentials.server = StrCat("https://", HostBeforePort(host), ":", port);
  credentials.ca.file = StrCat(kMounted, "ca.crt");
  credentials.token.file = StrCat(kMounted, "token");
  const absl::StatusOr<std::string> ns = FileOrData{StrCat(kMounted, "namespace"), ""}.Read();
  credentials.ns = ns.ok() ? std::string(ToStd(absl::StripAsciiWhitespace(*ns))) : "default";
  return credentials;
}

absl::StatusOr<Credentials> FindCredentials(const std::string& path) {
  if (!path.empty()) return LoadKubeconfig(path);
  if (const char* named = std::getenv("KUBECONFIG"); named != nullptr && *named != '\0') {
    if (std::string_view(named).find(':') != std::string_view::npos)
      return absl::InvalidArgumentError(
          StrCat("KUBECONFIG names several files, ", named,
                 ", which are not merged here; give one with --kubeconfig, such as what kubectl "
                 "config view --flatten --minify prints"));
    return LoadKubeconfig(named);
  }
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) return LoadInCluster();
  const char* home = std::getenv("HOME");
  const std::string fallback = StrCat(home == nullptr ? "" : home, "/.kube/config");
  if (std::filesystem::exists(fallback)) return LoadKubeconfig(fallback);
  return absl::NotFoundError("no cluster: pass --kubeconfig, set KUBECONFIG or run inside a pod");
}

void TokenSource::OnRefused() {
  MutexLock lock(&mutex_);
  refused_ = true;
}

absl::StatusOr<std::string> TokenSource::Current() {
  MutexLock lock(&mutex_);
  if (source_.empty()) return std::string();
  const MonoTime now = clock_.MonoNow();
  const bool fresh_enough = source_.file.empty() || (!refused_ && now - read_at_ < kTokenAge);
  if (!token_.empty() && fresh_enough) return token_;
  const absl::StatusOr<std::string> fresh = source_.Read();
  if (fresh.ok() && !fresh->empty()) {
    token_ = std::string(ToStd(absl::StripAsciiWhitespace(*fresh)));
    read_at_ = now;
    refused_ = false;
  } else if (token_.empty()) {
    return fresh.ok() ? absl::UnauthenticatedError(StrCat("token file ", source_.file, " is empty"))
                      : fresh.status();
  }
  return token_;
}

}  // namespace strobe::kube
