// Converts errors of file operations to statuses.
#pragma once
#include <string_view>

#include "absl/status/status.h"

namespace strobe::storage {

// Returns "cannot <doing> <path>: <the system's message>" with one of the codes in object_store.h,
// or with InvalidArgument if a name is too long. `error` is an errno.
absl::Status FileError(int error, std::string_view doing, std::string_view path);

}  // namespace strobe::storage
