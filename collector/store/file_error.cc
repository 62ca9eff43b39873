#include "collector/store/file_error.h"

#include <cerrno>
#include <system_error>

#include "common/base/strings.h"

namespace strobe::storage {

absl::Status FileError(int error, std::string_view doing, std::string_view path) {
  const std::string text =
      StrCat("cannot ", doing, " ", path, ": ", std::generic_category().message(error));
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(text);
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(text);
    case EEXIST:
      return absl::AlreadyExistsError(text);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(text);
    case ENAMETOOLONG:
      return absl::InvalidArgumentError(text);
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace strobe::storage
