// Opens files below a directory that others can write to, without following symbolic links in it. A
// trainer that shares the logdir's volume could otherwise redirect access to any file that this
// process may open. The directory itself may be, or be behind, a symbolic link.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"

namespace strobe::storage {

enum class Missing { kIsAnError, kIsMade };

// Opens the directory `folder` below `root`. Its parts are separated by '/'; the empty folder is
// the root itself. InvalidArgument for "..", FailedPrecondition if a part is a symbolic link; for
// other errors see FileError.
absl::StatusOr<FileDescriptor> OpenFolder(const std::string& root, std::string_view folder,
                                          Missing missing);

// Opens a regular file of the folder for reading. Does not block on a FIFO.
absl::StatusOr<FileDescriptor> OpenFileIn(const FileDescriptor& folder, const std::string& name);

struct FolderEntry {
  std::string name{};
  bool is_folder = false;  // Otherwise it is a regular file. Other types are left out.
  std::uint64_t bytes = 0;
  std::int64_t changed_ns = 0;  // When it was written last, in Unix time.
};
enum class Names { kShown, kHidden };  // Hidden names begin with a dot.
// Lists the entries of a folder that have such names.
absl::StatusOr<std::vector<FolderEntry>> ReadFolder(const FileDescriptor& folder,
                                                    Names names = Names::kShown);

}  // namespace strobe::storage
