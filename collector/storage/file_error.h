// What the operating system said of a file, as a status.
#pragma once
#include <string_view>

#include "absl/status/status.h"

namespace strobe {

// "cannot <doing> <path>: <the system's words>", with the codes that object_store.h lists.
absl::Status FileError(int error, std::string_view doing, std::string_view path);

}  // namespace strobe
