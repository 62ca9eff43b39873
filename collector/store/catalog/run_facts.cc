#include "collector/store/catalog/run_facts.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/text/safe_text.h"

namespace strobe::catalog {
namespace {

constexpr std::size_t kMaxRequestText = 384, kMaxNameText = 256, kMaxResultText = 32;
constexpr std::size_t kMaxCauseText = 40, kMaxMessageText = 4096;
// Causes are told apart up to this number; outcomes have a few dozen names.
constexpr std::size_t kMaxCausesCounted = 64;

// A number of the manifest. Protobuf writes those of 64 bits as text.
template <typename Number>
Number NumberOf(std::string_view text) {
  Number number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Receives the parts of the text in their order. Keeps only the values that are shown.
class ManifestReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit ManifestReader(const std::function<void(const WorkerFacts&)>& each) : each_(each) {}

  bool null() override { return true; }
  bool boolean(bool value) override {
    if (depth_ == 1 && key_ == "synchronized") facts_.synchronized = value;
    if (depth_ == 1 && key_ == "skewKnown") facts_.skew_known = value;
    return true;
  }
  bool number_integer(number_integer_t value) override { return Value(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return Value(std::to_string(value)); }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t& value) override { return Value(value); }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    if (depth_ == 2 && in_workers_) worker_ = {};
    return Deeper();
  }
  bool end_object() override {
    --depth_;
    if (depth_ == 2 && in_workers_) EndWorker();
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return false;  // A manifest is an object.
    if (depth_ == 1) in_workers_ = key_ == "workers";
    return Deeper();
  }
  bool end_array() override {
    --depth_;
    if (depth_ == 1) in_workers_ = false;
    return true;
  }
  bool key(string_t& value) override {
    if (depth_ == 1) key_ = value.substr(0, kMaxCauseText);
    if (depth_ == 3) worker_key_ = value.substr(0, kMaxCauseText);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  ManifestFacts Take() {
    for (const auto& [name, workers] : causes_) facts_.causes.push_back({name, workers});
    std::stable_sort(facts_.causes.begin(), facts_.causes.end(),
                     [](const Cause& a, const Cause& b) { return a.workers > b.workers; });
    if (facts_.causes.size() > kMaxCauses) facts_.causes.resize(kMaxCauses);
    return std::move(facts_);
  }

 private:
  bool Deeper() {
    ++depth_;
    return true;
  }

  bool Value(std::string_view value) {
    if (depth_ == 0) return false;
    if (depth_ == 1) OfManifest(value);
    if (depth_ == 3 && in_workers_) OfWorker(value);
    return true;
  }

  void OfManifest(std::string_view value) {
    if (key_ == "request") facts_.request = CutUtf8(value, kMaxRequestText);
    if (key_ == "job") facts_.job = CutUtf8(value, kMaxNameText);
    if (key_ == "requester") facts_.requester = CutUtf8(value, kMaxNameText);
    if (key_ == "result") facts_.result = CutUtf8(value, kMaxResultText);
    if (key_ == "message") facts_.message = CutUtf8(value, kMaxMessageText);
    if (key_ == "instantNs") facts_.instant_ns = NumberOf<std::int64_t>(value);
    if (key_ == "skewNs") facts_.skew_ns = NumberOf<std::int64_t>(value);
    if (key_ == "skewErrorNs") facts_.skew_error_ns = NumberOf<std::int64_t>(value);
  }

  void OfWorker(std::string_view value) {
    const std::string& key = worker_key_;
    if (key == "name") worker_.name = CutUtf8(value, kMaxNameText);
    if (key == "pod") worker_.pod = CutUtf8(value, kMaxNameText);
    if (key == "role") worker_.role = CutUtf8(value, kMaxNameText);
    if (key == "outcome") worker_.outcome = CutUtf8(value, kMaxCauseText);
    if (key == "message") worker_.message = CutUtf8(value, kMaxMessageText);
    if (key == "rank") worker_.rank = NumberOf<std::int64_t>(value);
    if (key == "latenessNs") worker_.lateness_ns = NumberOf<std::int64_t>(value);
    if (key == "clockOffsetNs") worker_.clock_offset_ns = NumberOf<std::int64_t>(value);
    if (key == "clockErrorNs") worker_.clock_error_ns = NumberOf<std::int64_t>(value);
    if (key == "startedNs") worker_.started_ns = NumberOf<std::int64_t>(value);
    if (key == "bytes") worker_.bytes = NumberOf<std::uint64_t>(value);
    if (key == "events") worker_.events = NumberOf<std::uint64_t>(value);
  }

  void EndWorker() {
    ++facts_.workers;
    constexpr std::uint64_t kMaxBytes = std::numeric_limits<std::uint64_t>::max();
    facts_.bytes += std::min(worker_.bytes, kMaxBytes - facts_.bytes);
    if (worker_.outcome == "Ok")
      ++facts_.ok;
    else if (causes_.contains(worker_.outcome) || causes_.size() < kMaxCausesCounted)
      ++causes_[worker_.outcome];
    if (each_) each_(worker_);
  }

  const std::function<void(const WorkerFacts&)>& each_;
  ManifestFacts facts_;
  WorkerFacts worker_;
  std::map<std::string, std::uint32_t> causes_;
  std::string key_, worker_key_;  // The next value's, at depth 1 and 3.
  std::size_t depth_ = 0;         // Objects and lists that have begun.
  bool in_workers_ = false;
};

// The headline comes before everything whose size depends on the run, and after names that are
// shorter than this.
constexpr std::size_t kHeadBytes = 4096;

// Ends the parsing at the headline, because what follows is not complete.
class HeadlineSax : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::string headline{};

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& text) override {
    if (!is_headline_) return true;
    headline = text;
    return false;
  }
  bool start_object(std::size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool start_array(std::size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }
  bool key(string_t& key) override {
    is_headline_ = depth_ == 1 && key == "headline";
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  bool Enter() {
    is_headline_ = false;
    ++depth_;
    return true;
  }
  bool Leave() {
    --depth_;
    return true;
  }

  std::size_t depth_ = 0;
  bool is_headline_ = false;
};

}  // namespace

absl::StatusOr<ManifestFacts> ReadManifestFacts(
    std::string_view text, const std::function<void(const WorkerFacts&)>& each) {
  ManifestReader reader(each);
  if (!nlohmann::json::sax_parse(text, &reader))
    return absl::InvalidArgumentError("its strobe.json cannot be read");
  return reader.Take();
}

std::string HeadlineIn(std::string_view head) {
  HeadlineSax sax;
  (void)nlohmann::json::sax_parse(head.begin(), head.end(), &sax);
  return CutUtf8(sax.headline, kMaxHeadlineBytes);
}

std::string ReadHeadline(storage::ObjectStore& store, const std::string& run) {
  std::vector<char> head(kHeadBytes);
  absl::StatusOr<std::size_t> size = store.Read(storage::ReportKey(run), 0, head);
  if (absl::IsNotFound(size.status())) size = store.Read(storage::EvidenceKey(run), 0, head);
  return size.ok() ? HeadlineIn({head.data(), *size}) : "";
}

}  // namespace strobe::catalog
