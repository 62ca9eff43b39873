#include "operator/enroll/authority_secret.h"

#include "absl/strings/escaping.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::enroll {
namespace {

constexpr char kCertificates[] = "ca.crt", kKeys[] = "ca.key";

absl::StatusOr<std::string> Decoded(const kube::Json& data, const char* key) {
  std::string text;
  if (!absl::Base64Unescape(data.value(key, ""), &text))
    return absl::DataLossError(StrCat("the authorities' Secret: ", key, " is not base64"));
  return text;
}

}  // namespace

std::string AuthoritySecret::SecretPath() const {
  return StrCat("/api/v1/namespaces/", options_.ns, "/secrets/", options_.secret);
}

absl::StatusOr<StoredAuthorities> AuthoritySecret::Load() {
  absl::StatusOr<kube::Json> secret = client_.Get(SecretPath());
  if (absl::IsNotFound(secret.status())) {
    return absl::NotFoundError(StrCat("there is no Secret ", options_.ns, "/", options_.secret,
                                      "; create an empty one (the chart does)"));
  }
  RETURN_IF_ERROR(secret.status());
  const kube::Json data = secret->value("data", kube::Json::object());
  StoredAuthorities stored;
  ASSIGN_OR_RETURN(stored.certificates, Decoded(data, kCertificates));
  ASSIGN_OR_RETURN(stored.keys, Decoded(data, kKeys));
  stored.version = secret->at("metadata").value("resourceVersion", "");
  stored.server_time = client_.ServerTime();
  return stored;
}

absl::Status AuthoritySecret::Save(const StoredAuthorities& authorities) {
  return client_
      .MergePatch(SecretPath(), {{"metadata", {{"resourceVersion", authorities.version}}},
                                 {"data",
                                  {{kCertificates, absl::Base64Escape(authorities.certificates)},
                                   {kKeys, absl::Base64Escape(authorities.keys)}}}})
      .status();
}

absl::Status AuthoritySecret::WriteRoots(const std::string& roots) {
  return LackRoots(roots, /*write=*/true).status();
}

absl::StatusOr<bool> AuthoritySecret::AreRootsWritten(const std::string& roots) {
  ASSIGN_OR_RETURN(const bool lack, LackRoots(roots, /*write=*/false));
  return !lack;
}

absl::StatusOr<bool> AuthoritySecret::LackRoots(const std::string& roots, bool write) {
  if (options_.webhooks.empty()) return false;
  bool lack = false;
  const std::string bundle = absl::Base64Escape(roots);
  for (const char* kind : {"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}) {
    const std::string path =
        StrCat("/apis/admissionregistration.k8s.io/v1/", kind, "/", options_.webhooks);
    absl::StatusOr<kube::Json> configuration = client_.Get(path);
    RETURN_IF_ERROR(configuration.status());
    bool changed = false;
    for (kube::Json& webhook : (*configuration)["webhooks"]) {
      if (webhook["clientConfig"].value("caBundle", "") == bundle) continue;
      webhook["clientConfig"]["caBundle"] = bundle;
      changed = true;
    }
    // The object has the version that was read, so a concurrent change causes a conflict, which the
    // next call resolves.
    if (changed && write) RETURN_IF_ERROR(client_.Replace(path, *configuration).status());
    lack = lack || changed;
  }
  return lack;
}

}  // namespace strobe::enroll
