#include "agent/recorder/directory_files.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "agent/wire/file_lock.h"
#include "agent/wire/ring_file.h"
#include "agent/wire/ticks.h"

namespace strobe::agent {
namespace {

int log = -1;  // Stays open during the process's life, because closing it releases the lock.
// The file that `log` refers to, unless the program has closed it and uses its number again.
struct stat logged = {};

bool Add(int file, const wire::Failure& failure) {
  constexpr auto kSize = static_cast<off_t>(sizeof failure);
  constexpr int kMaxTries = 100;
  int tries = 0;
  while (!wire::TryLockByte(file, F_WRLCK, wire::kFailureGuardByte)) {
    if (++tries == kMaxTries) return false;
    usleep(100);
  }
  struct stat status = {};
  bool written = false;
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode)) {
    logged = status;
    // Uses the first free record. Its space is reserved, so this works on a full volume too.
    off_t at = 0;
    wire::Failure there = {};
    const off_t end = static_cast<off_t>(wire::kMaxFailures) * kSize;
    while (at < end && pread(file, &there, sizeof there, at) == kSize &&
           there.magic == wire::kFailureMagic)
      at += kSize;
    written = at < end && wire::FileMayHave(static_cast<std::uint64_t>(at + kSize)) &&
              pwrite(file, &failure, sizeof failure, at) == kSize;
    if (written) wire::TryLockByte(file, F_WRLCK, at);
  }
  wire::UnlockByte(file, wire::kFailureGuardByte);
  return written;
}

}  // namespace

void LogFailure(const std::string& directory, wire::FailureStep step, int error) {
  if (log >= 0) return;
  const std::string path = directory + "/failures";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0660);
  if (file < 0) return;
  fchmod(file, 0666);  // All users of the pod write to it.
  wire::Failure failure{.magic = wire::kFailureMagic,
                        .pid = static_cast<std::uint32_t>(getpid()),
                        .step = static_cast<std::uint32_t>(step),
                        .error = static_cast<std::uint32_t>(error),
                        .at_ns = wire::MonotonicNs(),
                        .program = {},
                        .container = {}};
  const std::string container = wire::OwnContainer();
  std::copy_n(container.begin(), container.size(), failure.container);
  prctl(PR_GET_NAME, failure.program);  // Writes at most 16 bytes.
  if (Add(file, failure))
    log = file;
  else
    close(file);
}

void ForgetFailure() {
  struct stat status = {};
  if (log >= 0 && fstat(log, &status) == 0 && status.st_dev == logged.st_dev &&
      status.st_ino == logged.st_ino)
    close(log);
  log = -1;
}

wire::Orders ReadOrders(const std::string& directory) {
  wire::Orders orders{};
  const std::string path = directory + "/orders";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const bool whole = file >= 0 && read(file, &orders, sizeof orders) == sizeof orders;
  if (file >= 0) close(file);
  if (whole && orders.magic == wire::kMagic && orders.version == wire::kVersion) return orders;
  wire::Orders none{};
  none.filter = ~0u;
  return none;
}

void Obey(const wire::Orders& orders, const wire::RingFile& file) {
  wire::FileHeader& header = *file.header();
  header.filter = orders.filter;
  for (std::size_t i = 0; i < orders.framework_ports.size(); ++i)
    header.framework_ports[i] = orders.framework_ports[i];
  header.attend_until = orders.attend_until;
  header.device_until = orders.device_until;
  header.device_mode = orders.device_mode;
  header.device_control = orders.devices;
  for (std::size_t i = 0; i < wire::kWishers; ++i)
    file.Wish(static_cast<wire::Wisher>(i), orders.wishes[i]);
}

}  // namespace strobe::agent
