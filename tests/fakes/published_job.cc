#include "tests/fakes/published_job.h"

#include <array>
#include <charconv>
#include <fstream>
#include <span>
#include <string_view>

#include "collector/trace/kineto/gunzip.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

// The letters of the kinds, in the order of PipelineKind.
constexpr std::string_view kLetters = "afbsrSRglexco";

// Takes an integer off the front of the text, and the character behind it.
absl::StatusOr<std::int64_t> TakeInteger(std::string_view& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return absl::DataLossError(StrCat("no number at ", text.substr(0, 9)));
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.empty()) text.remove_prefix(1);
  return value;
}

// Reads the line of one worker: "<replica> <stage> <letter><gap>,<duration> ...".
absl::Status ReadWorker(std::string_view line, std::int64_t step, std::int64_t unit_ns,
                        std::vector<report::PipelineOperation>& operations) {
  ASSIGN_OR_RETURN(const std::int64_t replica, TakeInteger(line));
  ASSIGN_OR_RETURN(const std::int64_t stage, TakeInteger(line));
  std::array<std::uint32_t, report::kPipelineKinds> seen{};
  std::int64_t previous_end = 0;
  while (!line.empty()) {
    const std::size_t kind = kLetters.find(line.front());
    if (kind == std::string_view::npos)
      return absl::DataLossError(StrCat("no kind at ", line.substr(0, 9)));
    line.remove_prefix(1);
    ASSIGN_OR_RETURN(const std::int64_t gap, TakeInteger(line));
    ASSIGN_OR_RETURN(const std::int64_t duration, TakeInteger(line));
    operations.push_back({.step = step,
                          .replica = static_cast<std::uint32_t>(replica),
                          .stage = static_cast<std::uint32_t>(stage),
                          .kind = static_cast<report::PipelineKind>(kind),
                          .ordinal = seen[kind]++,
                          .begin_ns = (previous_end + gap) * unit_ns,
                          .duration_ns = duration * unit_ns});
    previous_end += gap + duration;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadPublishedFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(path);
  const kineto::Gunzip::Source source = [&](std::span<char> room) -> absl::StatusOr<std::size_t> {
    file.read(room.data(), static_cast<std::streamsize>(room.size()));
    return static_cast<std::size_t>(file.gcount());
  };
  kineto::Gunzip gunzip(source);
  std::string text;
  std::array<char, 1 << 14> room{};
  for (;;) {
    ASSIGN_OR_RETURN(const std::size_t size, gunzip.Read(room));
    if (size == 0) break;
    text.append(room.data(), size);
  }
  if (gunzip.damaged()) return absl::DataLossError(path);
  return text;
}

absl::StatusOr<std::vector<report::PipelineOperation>> ReadPublishedJob(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadPublishedFile(path));
  std::vector<report::PipelineOperation> operations;
  std::int64_t unit_ns = 0, step = 0;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto named = [&](std::string_view name) {
      if (!line.starts_with(name)) return false;
      line.remove_prefix(name.size());
      return true;
    };
    if (named("unit_ns ")) {
      ASSIGN_OR_RETURN(unit_ns, TakeInteger(line));
    } else if (named("step ")) {
      ASSIGN_OR_RETURN(step, TakeInteger(line));
    } else {
      RETURN_IF_ERROR(ReadWorker(line, step, unit_ns, operations));
    }
  }
  return operations;
}

}  // namespace strobe
