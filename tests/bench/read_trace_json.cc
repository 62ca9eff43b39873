// read_trace_json FILE [OUT]: reads a trace in Chrome's JSON format, on one core, and prints what
// was read: events, bytes of the file and of the XSpace, seconds of the processor, and the peak of
// the memory in KiB.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "collector/trace/kineto/trace_file.h"

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "read_trace_json FILE [OUT]\n"), 2;
  const int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::perror(argv[1]), 1;
  strobe::kineto::ReadReport report;
  const absl::StatusOr<std::string> space = strobe::kineto::ReadTraceFile(
      [fd](std::span<char> room) -> absl::StatusOr<std::size_t> {
        const ssize_t bytes = read(fd, room.data(), room.size());
        if (bytes < 0) return absl::DataLossError("cannot read");
        return static_cast<std::size_t>(bytes);
      },
      report);
  if (!space.ok()) return std::fprintf(stderr, "%s\n", space.status().ToString().c_str()), 1;
  if (argc > 2)
    std::ofstream(argv[2], std::ios::binary)
        .write(space->data(), static_cast<std::streamsize>(space->size()));
  for (const std::string& warning : strobe::kineto::Warnings(report))
    std::fprintf(stderr, "%s\n", warning.c_str());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  std::printf("%llu %llu %llu %.3f %ld\n", static_cast<unsigned long long>(report.events),
              static_cast<unsigned long long>(report.bytes),
              static_cast<unsigned long long>(space->size()),
              seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_maxrss);
  return 0;
}
