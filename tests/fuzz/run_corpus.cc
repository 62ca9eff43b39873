// run_corpus TARGET FOLDER ROUNDS|DURATION [SEED]: runs a target on every file of the folder, then
// on randomly damaged copies of them, for a number of rounds (200000) or a duration (10m). Prints
// the seed; the same seed reproduces the same inputs. An input that takes a minute ends the program
// like a crash. A folder of which no file is accepted is an error: damaged copies of it would only
// be refused.
//
// run_corpus make-index TRACES FOLDER: makes the corpus of `index` anew from that of `space`.
#include <google/protobuf/stubs/logging.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/duration.h"
#include "common/base/log.h"
#include "tests/fuzz/targets.h"

namespace {

// Inserts many copies of a few bytes, to find inputs that use much more memory than their size.
void Repeat(std::string& bytes, std::size_t at, std::mt19937_64& random) {
  constexpr std::size_t kMax = 200'000;
  std::string piece = bytes.substr(at, 1 + random() % 8);
  // Often uses an empty protobuf field with a random number.
  if (piece.empty() || random() % 2 == 0)
    piece = {static_cast<char>((1 + random() % 15) << 3 | 2), '\0'};
  std::string many;
  for (std::size_t left = random() % kMax; left > piece.size(); left -= piece.size()) many += piece;
  bytes.insert(at, many);
}

// Flips bits and truncates, repeats, removes and inserts pieces.
std::string Damage(std::string bytes, const std::vector<std::string>& corpus,
                   std::mt19937_64& random) {
  if (random() % 64 == 0) Repeat(bytes, random() % (bytes.size() + 1), random);
  for (std::uint64_t i = 0, times = 1 + random() % 6; i < times && !bytes.empty(); ++i) {
    const std::size_t at = random() % bytes.size();
    switch (random() % 7) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
        break;
      case 1:
        bytes[at] = static_cast<char>(random());
        break;
      case 2:
        bytes.resize(at);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, random() % 40));
        break;
      case 4:
        bytes.erase(at, random() % 20);
        break;
      case 5:  // The largest varint.
        bytes.replace(at, std::min<std::size_t>(10, bytes.size() - at),
                      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
        break;
      default: {
        const std::string& other = corpus[random() % corpus.size()];
        bytes.insert(at, other.substr(other.empty() ? 0 : random() % other.size(), random() % 60));
      }
    }
  }
  return bytes;
}

int MakeIndexCorpus(const std::filesystem::path& traces, const std::filesystem::path& folder) {
  for (const auto& file : std::filesystem::directory_iterator(traces)) {
    std::ifstream trace(file.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(trace), {}};
    const std::string index = strobe::fuzz::IndexSeed(bytes);
    if (bytes.empty() || index.empty()) continue;
    std::ofstream(folder / file.path().stem().concat(".index"), std::ios::binary) << index;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "make-index")
    return MakeIndexCorpus(argv[2], argv[3]);
  const std::map<std::string, bool (*)(std::string_view)> targets = {
      {"space", strobe::fuzz::Space},
      {"digest", strobe::fuzz::Digest},
      {"trace_json", strobe::fuzz::TraceJson},
      {"index", strobe::fuzz::Index},
      {"hlo", strobe::fuzz::Hlo},
      {"query", strobe::fuzz::Query},
      {"runs", strobe::fuzz::Runs},
      {"pickle", strobe::fuzz::Pickle},
      {"stacks", strobe::fuzz::Stacks},
      {"ras", strobe::fuzz::Ras},
      {"forged", strobe::fuzz::ForgedPython},
      {"admission", strobe::fuzz::Admission},
      {"alerts", strobe::fuzz::Alerts},
      {"watch", strobe::fuzz::Watch},
      {"yaml", strobe::fuzz::Yaml},
      {"rings", strobe::fuzz::Rings},
      {"collectives", strobe::fuzz::CollectiveCalls},
      {"http", strobe::fuzz::Http},
      {"answers", strobe::fuzz::Answers},
      {"kineto", strobe::fuzz::Kineto},
  };
  const auto found = argc < 4 ? targets.end() : targets.find(argv[1]);
  if (found == targets.end()) {
    std::fprintf(stderr, "run_corpus TARGET FOLDER ROUNDS|DURATION [SEED]; targets:");
    for (const auto& [name, run] : targets) std::fprintf(stderr, " %s", name.c_str());
    return std::fprintf(stderr, "\n"), 2;
  }
  using Clock = std::chrono::steady_clock;
  long round = 0, slowest_round = 0;
  Clock::duration slowest{};
  const auto target = [&, run = found->second](const std::string& bytes) {
    const auto began = Clock::now();
    alarm(60);
    const bool accepted = run(bytes);
    alarm(0);
    if (const auto took = Clock::now() - began; took > slowest) {
      slowest = took;
      slowest_round = round;
    }
    return accepted;
  };
  google::protobuf::SetLogHandler(nullptr);
  strobe::InitLog(strobe::LogLevel::kError, strobe::LogFormat::kText);
  std::vector<std::string> corpus;
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(argv[2]))
    files.push_back(file.path());
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  if (corpus.empty()) return std::fprintf(stderr, "%s is empty\n", argv[2]), 1;
  const std::uint64_t seed =
      argc > 4 ? std::strtoull(argv[4], nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  const auto accepted = std::count_if(corpus.begin(), corpus.end(), target);
  if (accepted == 0) return std::fprintf(stderr, "no file of %s is accepted\n", argv[2]), 1;
  const auto began = Clock::now();
  const absl::StatusOr<strobe::Nanos> duration = strobe::ParseDuration(argv[3]);
  const long most = duration.ok() ? std::numeric_limits<long>::max() : std::atol(argv[3]);
  while (round < most && !(duration.ok() && Clock::now() - began > *duration)) {
    ++round;
    target(Damage(corpus[random() % corpus.size()], corpus, random));
  }
  std::printf("%ld rounds without a finding; the slowest was round %ld with %.3f s\n", round,
              slowest_round, std::chrono::duration<double>(slowest).count());
  return 0;
}
