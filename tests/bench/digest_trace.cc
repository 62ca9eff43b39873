// digest_trace FILE: computes and encodes the digest of a trace on one core, and prints: events,
// bytes of the digest, seconds of the processor for digest and encoding, and by how many KiB the
// peak of the memory that is no file grew meanwhile.
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>

#include "collector/trace/convert/align.h"
#include "collector/trace/digest/compute_digest.h"
#include "collector/trace/digest/encode.h"
#include "common/memory/mapped_file.h"

namespace {

double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// A line of /proc/self/status, in KiB.
long Status(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return std::stol(line.substr(key.size()));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "digest_trace FILE\n"), 2;
  const absl::StatusOr<strobe::MappedFile> file = strobe::MappedFile::Open(argv[1]);
  if (!file.ok()) return std::fprintf(stderr, "%s\n", file.status().ToString().c_str()), 1;
  const absl::StatusOr<strobe::xplane::Space> space = strobe::convert::ReadSpace(file->bytes());
  if (!space.ok()) return std::fprintf(stderr, "%s\n", space.status().ToString().c_str()), 1;
  // Reading the space has brought the whole file into memory, so that the rest is ours.
  std::ofstream("/proc/self/clear_refs") << "5\n";  // Forgets the peak.
  const long before = Status("VmRSS:");
  const double began = ProcessorSeconds();
  const absl::StatusOr<strobe::digest::Digest> digest =
      strobe::digest::ComputeDigest(*space, "worker");
  if (!digest.ok()) return std::fprintf(stderr, "%s\n", digest.status().ToString().c_str()), 1;
  const std::string bytes = strobe::digest::EncodeDigest(*digest);
  const double seconds = ProcessorSeconds() - began;
  std::printf("%llu %zu %.4f %ld\n", static_cast<unsigned long long>(digest->events), bytes.size(),
              seconds, Status("VmHWM:") - before);
  return 0;
}
