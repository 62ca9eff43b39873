// Implements Transport with cpprestsdk.
#pragma once
#include <memory>

#include "operator/kube/credentials.h"
#include "operator/kube/transport.h"

namespace strobe::kube {

// Starts the library's thread pool with a few threads instead of 40. Call it first in main.
void InitCpprest();

// InvalidArgument if the server's URL cannot be used.
absl::StatusOr<std::unique_ptr<Transport>> MakeCpprestTransport(const Clock& clock,
                                                                Credentials credentials);

}  // namespace strobe::kube
