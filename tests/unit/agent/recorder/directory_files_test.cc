#include "agent/recorder/directory_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace strobe::agent {
namespace {

TEST(FailureLogTest, AForkedChildClosesNoDescriptorOfTheProgram) {
  std::string directory = testing::TempDir() + "failure_log_XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const int number = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(number);
  LogFailure(directory, wire::FailureStep::kCreate, EACCES);
  ASSERT_NE(fcntl(number, F_GETFD), -1) << "the log has the number that was free";

  // The program closes all descriptors, as daemons do, and uses the number for a file of its own.
  close(number);
  ASSERT_EQ(open("/dev/null", O_RDONLY | O_CLOEXEC), number);
  ForgetFailure();
  EXPECT_NE(fcntl(number, F_GETFD), -1);
  close(number);

  LogFailure(directory, wire::FailureStep::kCreate, EACCES);
  ForgetFailure();
  EXPECT_EQ(fcntl(number, F_GETFD), -1) << "its own it does close";
  EXPECT_EQ(std::filesystem::file_size(directory + "/failures"), 2 * sizeof(wire::Failure));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace strobe::agent
