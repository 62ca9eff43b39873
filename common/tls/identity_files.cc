#include "common/tls/identity_files.h"

#include <utility>
#include <vector>

#include "common/base/files.h"
#include "common/base/log.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/tls/certificate.h"
#include "common/tls/openssl_handles.h"

namespace strobe {

absl::StatusOr<std::unique_ptr<IdentityFiles>> IdentityFiles::Read(Paths paths) {
  std::unique_ptr<IdentityFiles> files(new IdentityFiles(std::move(paths)));
  if (!files->paths_.certificate.empty()) {
    ASSIGN_OR_RETURN(Identity identity, files->ReadIdentity());
    ASSIGN_OR_RETURN(files->identity_, LiveIdentity::Create(std::move(identity)));
  }
  if (!files->paths_.client_authority.empty()) RETURN_IF_ERROR(files->ReadClientAuthorities());
  return files;
}

void IdentityFiles::ReadAgain() {
  absl::Status status;
  if (identity_ != nullptr) status.Update(ReplaceIdentity());
  if (!paths_.client_authority.empty()) status.Update(ReadClientAuthorities());
  const std::string complaint = status.ok() ? "" : MessageOf(status);
  MutexLock lock(&mutex_);
  if (!complaint.empty() && complaint != complaint_)
    LogWarning("a certificate's files cannot be read again; what was read before stays in use",
               {{"error", complaint}});
  complaint_ = complaint;
}

absl::Status IdentityFiles::ReplaceIdentity() {
  ASSIGN_OR_RETURN(Identity now, ReadIdentity());
  const std::shared_ptr<const Identity> before = identity_->Get();
  if (now.own.certificate == before->own.certificate && now.own.key == before->own.key)
    return absl::OkStatus();
  return identity_->Replace(std::move(now));
}

std::string IdentityFiles::client_authorities() const {
  MutexLock lock(&mutex_);
  return client_authorities_;
}

absl::StatusOr<Identity> IdentityFiles::ReadIdentity() const {
  Identity identity;
  ASSIGN_OR_RETURN(identity.own.certificate, ReadTextFile(paths_.certificate));
  ASSIGN_OR_RETURN(identity.own.key, ReadTextFile(paths_.key));
  ASSIGN_OR_RETURN(const std::vector<openssl::Certificate> chain,
                   openssl::ReadCertificates(identity.own.certificate));
  ASSIGN_OR_RETURN(const openssl::Key key, openssl::ReadKey(identity.own.key));
  // A renewal writes one file after the other, so that the two may not belong together yet.
  if (X509_check_private_key(chain.front().get(), key.get()) != 1)
    return openssl::Failure(StrCat(paths_.key, " is not the key of ", paths_.certificate));
  return identity;
}

absl::Status IdentityFiles::ReadClientAuthorities() {
  ASSIGN_OR_RETURN(std::string authorities, ReadTextFile(paths_.client_authority));
  RETURN_IF_ERROR(ValidityOf(authorities).status());
  MutexLock lock(&mutex_);
  client_authorities_ = std::move(authorities);
  return absl::OkStatus();
}

}  // namespace strobe
