// A file that appears under its name only when it is complete.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace strobe {

// It is written under a temporary name, which ends with ".part", and renamed by Finish(), so that
// other processes never open a part of it. Only its owner can read it.
class NewFile {
 public:
  explicit NewFile(std::string path);
  ~NewFile();  // Removes what was written, unless Finish() succeeded.
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // After an error, all further calls return it too.
  absl::Status Write(std::string_view piece);
  absl::Status Finish();
  // Like Finish, and withstands a crash of the machine: there is then the former file or, always
  // after success, the whole new one.
  absl::Status FinishDurably();

 private:
  const std::string path_;
  std::string temporary_;
  int fd_ = -1;
  bool done_ = false;
  absl::Status status_;
};

}  // namespace strobe
