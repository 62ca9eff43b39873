#include "collector/store/catalog/entries_file.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/hash.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::catalog {
namespace {

using Json = nlohmann::json;

// Counts up with each change of the entries' form.
constexpr int kFormat = 3;
constexpr std::size_t kDigestLine = 65;  // The last line: 64 digits and the line's end.

std::string HeadingOf(std::string_view logdir) {
  const Json heading = {{"strobe", "runs"}, {"format", kFormat}, {"logdir", std::string(logdir)}};
  return JsonText(heading);
}

Json ToLine(const RunEntry& entry) {
  Json causes = Json::array();
  for (const Cause& cause : entry.causes) causes.push_back({cause.name, cause.workers});
  return Json::array({entry.run,
                      entry.time_ns,
                      entry.objects.manifest_bytes,
                      entry.objects.manifest_mark,
                      entry.objects.bytes,
                      entry.objects.traces,
                      entry.has_manifest,
                      entry.unread,
                      entry.problem,
                      entry.ns,
                      entry.request,
                      entry.job,
                      entry.requester,
                      entry.result,
                      std::move(causes),
                      entry.synchronized,
                      entry.skew_known,
                      entry.skew_ns,
                      entry.skew_error_ns,
                      entry.workers,
                      entry.ok,
                      entry.bytes,
                      entry.objects.report_bytes,
                      entry.headline});
}

// Throws if it is no such line.
EntryRef OfLine(std::string_view line) {
  const Json json = Json::parse(line);
  std::size_t next = 0;
  const auto take = [&](auto& value) { json.at(next++).get_to(value); };
  auto entry = std::make_shared<RunEntry>();
  take(entry->run);
  take(entry->time_ns);
  take(entry->objects.manifest_bytes);
  take(entry->objects.manifest_mark);
  take(entry->objects.bytes);
  take(entry->objects.traces);
  take(entry->has_manifest);
  take(entry->unread);
  take(entry->problem);
  take(entry->ns);
  take(entry->request);
  take(entry->job);
  take(entry->requester);
  take(entry->result);
  for (const Json& cause : json.at(next++))
    entry->causes.push_back({cause.at(0).get<std::string>(), cause.at(1).get<std::uint32_t>()});
  take(entry->synchronized);
  take(entry->skew_known);
  take(entry->skew_ns);
  take(entry->skew_error_ns);
  take(entry->workers);
  take(entry->ok);
  take(entry->bytes);
  take(entry->objects.report_bytes);
  take(entry->headline);
  MakeSearchable(*entry);
  return entry;
}

std::string DigestOf(std::string_view text) {
  Sha256 digest;
  digest.Update(text);
  return digest.Hex();
}

absl::StatusOr<LogdirRuns> ReadLines(std::string_view text, std::string_view logdir) {
  LogdirRuns runs{.logdir = std::string(logdir), .listed = true};
  const std::size_t heading = text.find('\n');
  if (text.substr(0, heading) != HeadingOf(logdir))
    return absl::FailedPreconditionError("the file is of another logdir or version");
  text.remove_prefix(heading + 1);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    try {
      runs.entries.push_back(OfLine(text.substr(0, end)));
    } catch (const Json::exception& error) {
      return absl::DataLossError(error.what());
    }
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return runs;
}

}  // namespace

std::string EntriesFileName(std::string_view logdir) {
  return StrCat("runs-", DigestOf(logdir).substr(0, 32), ".list");
}

absl::Status WriteEntries(const LogdirRuns& runs,
                          const std::function<absl::Status(std::string_view)>& write) {
  Sha256 digest;
  std::string piece = HeadingOf(runs.logdir) + "\n";
  const auto flush = [&] {
    digest.Update(piece);
    const absl::Status written = write(piece);
    piece.clear();
    return written;
  };
  for (const EntryRef& entry : runs.entries) {
    // Texts from a store's listing may be anything.
    piece += JsonText(ToLine(*entry)) + "\n";
    if (piece.size() > 1u << 20) RETURN_IF_ERROR(flush());
  }
  RETURN_IF_ERROR(flush());
  return write(digest.Hex() + "\n");
}

absl::StatusOr<LogdirRuns> ReadEntries(std::string_view text, std::string_view logdir) {
  if (text.size() < kDigestLine || text.back() != '\n')
    return absl::DataLossError("the file is too short");
  const std::string_view digest = text.substr(text.size() - kDigestLine, kDigestLine - 1);
  text.remove_suffix(kDigestLine);
  if (DigestOf(text) != digest) return absl::DataLossError("the file is damaged");
  return ReadLines(text, logdir);
}

}  // namespace strobe::catalog
