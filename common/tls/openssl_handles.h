// Owning pointers to OpenSSL's objects, and conversions from and to PEM.
#pragma once
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace strobe::openssl {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using SigningRequest = std::unique_ptr<X509_REQ, Deleter<X509_REQ_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Deleter<GENERAL_NAMES_free>>;
using Store = std::unique_ptr<X509_STORE, Deleter<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Deleter<X509_STORE_CTX_free>>;

// An Internal error whose message is `what` and OpenSSL's reason. Clears OpenSSL's error queue.
absl::Status Failure(std::string_view what);

absl::StatusOr<Key> ReadKey(const std::string& pem);
absl::StatusOr<SigningRequest> ReadSigningRequest(const std::string& pem);
// All certificates of a bundle, in order. An error if there is none.
absl::StatusOr<std::vector<Certificate>> ReadCertificates(const std::string& pem);

std::string ToPem(const Key& key);
std::string ToPem(const SigningRequest& request);
std::string ToPem(const Certificate& certificate);

}  // namespace strobe::openssl
