// Opens all kinds of stores that a logdir can name.
#pragma once
#include <memory>
#include <string>

#include "collector/store/object_store.h"
#include "collector/store/retrying_store.h"
#include "collector/store/store_options.h"

namespace strobe::storage {

// Supports file, s3, gs and az. Failures that a retry can cure are retried.
class Stores final : public StoreOpener {
 public:
  Stores(StorageConfig config, UrlOptions url_options, OnRetry on_retry = nullptr)
      : config_(std::move(config)), url_options_(url_options), on_retry_(std::move(on_retry)) {}

  absl::StatusOr<std::unique_ptr<ObjectStore>> Open(const Logdir& logdir,
                                                    const StoreLimits& limits) override;

 private:
  const StorageConfig config_;
  const UrlOptions url_options_;
  const OnRetry on_retry_;
};

}  // namespace strobe::storage
