#include "viewer/api/run_files.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "collector/store/catalog/run_facts.h"
#include "collector/trace/convert/perfetto_trace.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/protocol/outcome.h"
#include "common/text/safe_text.h"

namespace strobe::viewer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMaxManifestRead = 16u << 20;
constexpr std::size_t kMaxFiles = 20'000;
constexpr std::size_t kMaxDepth = 8;  // How deep a file may be below its run.
// Perfetto's page takes a trace as one ArrayBuffer.
constexpr std::uint64_t kMaxPerfettoBytes = 2ull << 30;

// An object of a store.
class StoredBody final : public http::BodySource {
 public:
  StoredBody(std::unique_ptr<storage::ObjectStore> store, std::string key, std::string version,
             ByteRange range)
      : store_(std::move(store)),
        key_(std::move(key)),
        version_(std::move(version)),
        range_(range) {}

  std::uint64_t size() const override { return range_.end - range_.begin; }
  absl::StatusOr<std::size_t> Read(std::uint64_t offset, std::span<char> into) override {
    return store_->ReadVersion(key_, version_, range_.begin + offset, into);
  }

 private:
  const std::unique_ptr<storage::ObjectStore> store_;
  const std::string key_, version_;
  const ByteRange range_;
};

Json ToJson(const catalog::WorkerFacts& worker) {
  const Outcome outcome = OutcomeOfName(worker.outcome);
  const bool has_remedy = outcome != Outcome::kOk && outcome != Outcome::kUnknown;
  return {
      {"name", worker.name},
      {"pod", worker.pod},
      {"role", worker.role},
      {"rank", worker.rank},
      {"outcome", worker.outcome},
      {"hasTrace", outcome == Outcome::kUnknown ? worker.bytes > 0 : Describe(outcome).has_trace},
      {"message", worker.message},
      {"remedy", has_remedy ? Describe(outcome).remedy : ""},
      {"latenessNs", worker.started_ns == 0 ? Json() : Json(worker.lateness_ns)},
      {"clockOffsetNs", worker.clock_offset_ns},
      {"clockErrorNs", worker.clock_error_ns},
      {"bytes", worker.bytes},
      {"events", worker.events}};
}

void AddManifest(const absl::StatusOr<std::string>& text, Json& page) {
  if (absl::IsNotFound(text.status())) return;
  if (!text.ok()) {
    page["problem"] = MessageOf(text.status());
    return;
  }
  Json workers = Json::array();
  const absl::StatusOr<catalog::ManifestFacts> facts = catalog::ReadManifestFacts(
      *text, [&](const catalog::WorkerFacts& worker) { workers.push_back(ToJson(worker)); });
  if (!facts.ok()) {
    page["problem"] = MessageOf(facts.status());
    return;
  }
  page["manifest"] = {{"request", facts->request},
                      {"job", facts->job},
                      {"requester", facts->requester},
                      {"result", facts->result},
                      {"message", facts->message},
                      {"instantMs", facts->instant_ns / 1'000'000},
                      {"synchronized", facts->synchronized},
                      {"skewNs", facts->skew_known ? Json(facts->skew_ns) : Json()},
                      {"skewErrorNs", facts->skew_error_ns},
                      {"ok", facts->ok},
                      {"workers", std::move(workers)}};
}

// A name of an object below the run's folder that leads nowhere else.
bool IsInside(std::string_view file) {
  const std::vector<std::string> parts = Split(file, '/');
  return parts.size() <= kMaxDepth && std::all_of(parts.begin(), parts.end(), IsNameInFolder);
}

http::Page Download(std::string_view name, std::unique_ptr<http::BodySource> body) {
  return {.content_type = "application/octet-stream",
          .headers = {{"Content-Disposition",
                       StrCat("attachment; filename=\"", ToSafeName(name, 200), "\"")}},
          .source = std::move(body)};
}

}  // namespace

absl::StatusOr<std::optional<ByteRange>> ParseRange(const std::string& header, std::uint64_t size) {
  constexpr std::string_view kUnit = "bytes=";
  std::string_view text = header;
  const std::size_t dash = text.find('-');
  if (!text.starts_with(kUnit) || dash == std::string_view::npos) return std::nullopt;
  const std::string_view first = text.substr(kUnit.size(), dash - kUnit.size());
  const std::string_view last = text.substr(dash + 1);
  const auto number = [](std::string_view digits, std::uint64_t& value) {
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return end.ec == std::errc() && end.ptr == digits.data() + digits.size();
  };
  std::uint64_t begin = 0, end = 0;
  const bool has_first = number(first, begin), has_last = number(last, end);
  // Anything else, such as several ranges, may be answered with the whole.
  if ((!has_first && !first.empty()) || (!has_last && !last.empty())) return std::nullopt;
  if (!has_first && !has_last) return std::nullopt;
  if (!has_first) {
    if (end == 0 || size == 0) return absl::OutOfRangeError("there are no such bytes");
    return ByteRange{size - std::min(end, size), size};
  }
  if (has_last && end < begin) return std::nullopt;
  if (begin >= size) return absl::OutOfRangeError("there are no such bytes");
  return ByteRange{begin, has_last ? std::min(end, size - 1) + 1 : size};
}

absl::StatusOr<http::Page> ManifestPage(Library& library, const std::string& run,
                                        const http::Request&, const AnswerMeans&) {
  ASSIGN_OR_RETURN(const StoredRun stored, library.Store(run));
  Json files = Json::array();
  bool more = false;
  RETURN_IF_ERROR(
      stored.store->List(storage::RunPrefix(stored.run), [&](const storage::StoredObject& object) {
        more = files.size() >= kMaxFiles;
        if (!more) files.push_back({{"name", std::string(object.name())}, {"bytes", object.bytes}});
        return !more;
      }));
  if (files.empty()) return absl::NotFoundError(StrCat("there is no run ", run.substr(0, 200)));
  std::sort(files.begin(), files.end(), [](const Json& a, const Json& b) {
    return a["name"].get_ref<const std::string&>() < b["name"].get_ref<const std::string&>();
  });
  Json page = {{"name", run},        {"run", stored.run}, {"logdir", library.LogdirOf(run)},
               {"manifest", Json()}, {"problem", ""},     {"files", std::move(files)},
               {"moreFiles", more}};
  AddManifest(storage::GetText(*stored.store, storage::ManifestKey(stored.run), kMaxManifestRead),
              page);
  return JsonPage(page);
}

absl::StatusOr<http::Page> FilePage(Library& library, const std::string& run,
                                    const http::Request& request, const AnswerMeans&) {
  const std::string file = http::Query(request.query).Text("file");
  if (file.empty() || !IsInside(file)) return absl::InvalidArgumentError("file: give its name");
  ASSIGN_OR_RETURN(StoredRun stored, library.Store(run));
  const std::string key = storage::RunPrefix(stored.run) + file;
  ASSIGN_OR_RETURN(const storage::ObjectInfo info, stored.store->Stat(key));
  const std::string tag = info.version.empty() ? "" : StrCat("\"", ToSafeName(info.version), "\"");
  // A part is only worth something to a client that holds the rest of the same version.
  const bool same = request.if_range.empty() || request.if_range == tag;
  const absl::StatusOr<std::optional<ByteRange>> range =
      same ? ParseRange(request.range, info.bytes) : std::nullopt;
  if (!range.ok())
    return http::Page{.status = 416,
                      .body = MessageOf(range.status()) + "\n",
                      .headers = {{"Content-Range", StrCat("bytes */", info.bytes)}}};
  const ByteRange part = range->value_or(ByteRange{0, info.bytes});
  http::Page page = Download(
      file, std::make_unique<StoredBody>(std::move(stored.store), key, info.version, part));
  page.headers.emplace_back("Accept-Ranges", "bytes");
  if (!tag.empty()) page.headers.emplace_back("ETag", tag);
  if (*range) {
    page.status = 206;
    page.headers.emplace_back("Content-Range",
                              StrCat("bytes ", part.begin, "-", part.end - 1, "/", info.bytes));
  }
  return page;
}

absl::StatusOr<http::Page> PerfettoPage(Library& library, const std::string& run,
                                        const http::Request&, const AnswerMeans& means) {
  ASSIGN_OR_RETURN(const std::vector<convert::OpenTrace> traces, library.Open(run));
  SpooledAnswer answer(means.scratch, means.asker, means.is_gone);
  const absl::StatusOr<convert::AlignedTraces> aligned = convert::AlignTraces(traces);
  absl::Status status = aligned.status();
  if (status.ok())
    status = convert::WritePerfettoTrace(aligned->workers, [&](std::string_view piece) {
      if (answer.size() + piece.size() > kMaxPerfettoBytes)
        return absl::InvalidArgumentError(
            "the run is too large for Perfetto's page; strobe convert --to perfetto writes a file "
            "for trace_processor");
      return answer.Write(piece);
    });
  RETURN_IF_ERROR(convert::Unchanged(traces, status));
  http::Page page = Download(StrCat(run.substr(run.rfind('/') + 1), ".pftrace"), nullptr);
  RETURN_IF_ERROR(answer.MoveInto(page));
  return page;
}

}  // namespace strobe::viewer
