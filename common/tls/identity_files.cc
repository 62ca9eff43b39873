#include "common/tls/identity_files.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/base/text_file.h"
#include "common/tls/certificate.h"

namespace strobe {

absl::StatusOr<std::unique_ptr<IdentityFiles>> IdentityFiles::Read(Paths paths) {
  std::unique_ptr<IdentityFiles> files(new IdentityFiles(std::move(paths)));
  if (!files->paths_.certificate.empty()) {
    ASSIGN_OR_RETURN(Identity identity, files->ReadIdentity());
    files->identity_.emplace(std::move(identity));
  }
  if (!files->paths_.client_authority.empty()) RETURN_IF_ERROR(files->ReadClientAuthorities());
  return files;
}

void IdentityFiles::ReadAgain() {
  if (identity_) {
    const absl::StatusOr<Identity> now = ReadIdentity();
    const std::shared_ptr<const Identity> before = identity_->Get();
    if (now.ok() &&
        (now->own.certificate != before->own.certificate || now->own.key != before->own.key))
      identity_->Replace(*now);
  }
  if (!paths_.client_authority.empty()) ReadClientAuthorities().IgnoreError();
}

std::string IdentityFiles::client_authorities() const {
  MutexLock lock(&mutex_);
  return client_authorities_;
}

absl::StatusOr<Identity> IdentityFiles::ReadIdentity() const {
  Identity identity;
  ASSIGN_OR_RETURN(identity.own.certificate, ReadTextFile(paths_.certificate));
  ASSIGN_OR_RETURN(identity.own.key, ReadTextFile(paths_.key));
  RETURN_IF_ERROR(ValidityOf(identity.own.certificate).status());
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
