#include "collector/store/catalog/report_headline.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "common/text/utf8.h"

namespace strobe::catalog {
namespace {

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
