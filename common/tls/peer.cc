#include "common/tls/peer.h"

#include <openssl/err.h>

#include <algorithm>

#include "common/base/enum_names.h"
#include "common/tls/openssl_handles.h"

namespace strobe {
namespace {

using namespace openssl;

bool CarriesName(X509* certificate, const std::string& name) {
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* entry = sk_GENERAL_NAME_value(names.get(), i);
    if (entry->type != GEN_DNS) continue;
    const std::string_view text(
        reinterpret_cast<const char*>(ASN1_STRING_get0_data(entry->d.dNSName)),
        static_cast<std::size_t>(ASN1_STRING_length(entry->d.dNSName)));
    // Wildcards are not supported: Strobe issues none.
    if (text == name) return true;
  }
  return false;
}

}  // namespace

std::string_view Name(PeerVerdict verdict) {
  static constexpr EnumNames<PeerVerdict, 5> kNames(
      {{PeerVerdict::kOk, "ok"},
       {PeerVerdict::kNoCertificate, "no_certificate"},
       {PeerVerdict::kUntrusted, "untrusted"},
       {PeerVerdict::kExpired, "expired"},
       {PeerVerdict::kWrongName, "wrong_name"}});
  return kNames.Of(verdict, "untrusted");
}

bool CarriesCommonName(X509_STORE_CTX* context, const std::vector<std::string>& names) {
  if (X509_STORE_CTX_get_error_depth(context) > 0) return true;
  X509* const certificate = X509_STORE_CTX_get_current_cert(context);
  if (certificate == nullptr) return false;
  X509_NAME* const subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return false;
  const ASN1_STRING* const name = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  const std::string_view text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name)),
                              static_cast<std::size_t>(ASN1_STRING_length(name)));
  return std::find(names.begin(), names.end(), text) != names.end();
}

PeerVerdict JudgePeer(const std::string& certificate, const PeerRule& rule, WallTime now) {
  if (certificate.empty()) return PeerVerdict::kNoCertificate;
  const absl::StatusOr<std::vector<Certificate>> peer = ReadCertificates(certificate);
  const absl::StatusOr<std::vector<Certificate>> roots = ReadCertificates(rule.roots);
  if (!peer.ok() || !roots.ok()) return PeerVerdict::kUntrusted;
  const Store store(X509_STORE_new());
  for (const Certificate& root : *roots) X509_STORE_add_cert(store.get(), root.get());
  const StoreContext context(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), store.get(), peer->front().get(), nullptr) != 1)
    return PeerVerdict::kUntrusted;
  X509_VERIFY_PARAM* const rules = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_purpose(
      rules, rule.usage == Usage::kServer ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  X509_VERIFY_PARAM_set_time(
      rules, std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count());
  const bool valid = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (!valid) {
    const int error = X509_STORE_CTX_get_error(context.get());
    return error == X509_V_ERR_CERT_HAS_EXPIRED || error == X509_V_ERR_CERT_NOT_YET_VALID
               ? PeerVerdict::kExpired
               : PeerVerdict::kUntrusted;
  }
  return CarriesName(peer->front().get(), rule.name) ? PeerVerdict::kOk : PeerVerdict::kWrongName;
}

}  // namespace strobe
