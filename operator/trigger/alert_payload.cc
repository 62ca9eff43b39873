#include "operator/trigger/alert_payload.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::trigger {
namespace {

using Json = nlohmann::json;

constexpr char kVersion[] = "4";
constexpr std::size_t kMaxQuotedBytes = 64;

std::string Quoted(std::string_view text) {
  return StrCat("\"", WithoutControls(CutUtf8(text, kMaxQuotedBytes)), "\"");
}

// Alertmanager writes 16 hexadecimal digits.
bool IsFingerprint(const std::string& text) {
  return !text.empty() && text.size() <= kMaxFingerprintBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
         });
}

// The parser calls this for each value; it keeps only what becomes an alert. A parsed document
// would take up to sixty times the memory of its text.
class PayloadReader final : public nlohmann::json_sax<Json> {
 public:
  absl::StatusOr<AlertPayload> Result(bool parsed) {
    if (!error_.empty()) return absl::InvalidArgumentError(error_);
    if (!parsed || level_ != Level::kEnd)
      return absl::InvalidArgumentError("the body is not a JSON object");
    if (version_ != kVersion)
      return absl::InvalidArgumentError(
          StrCat("version is ", version_.empty() ? "missing" : Quoted(version_),
                 "; it must be \"4\", as in Alertmanager's webhooks"));
    if (!has_alerts_) return absl::InvalidArgumentError("alerts is missing");
    return std::move(payload_);
  }

  bool key(string_t& name) override {
    if (ignored_ == 0) key_ = std::move(name);
    return true;
  }

  bool start_object(std::size_t) override {
    if (ignored_ > 0) return Ignore();
    if (level_ == Level::kStart) return Enter(Level::kTop);
    if (level_ == Level::kAlerts) {
      alert_ = {};
      why_invalid_.clear();
      status_.clear();
      starts_.clear();
      return Enter(Level::kAlert);
    }
    if (level_ == Level::kAlert && IsMap()) return Enter(Level::kTexts);
    return Unexpected();
  }

  bool end_object() override {
    if (ignored_ > 0) {
      --ignored_;
    } else if (level_ == Level::kTexts) {
      level_ = Level::kAlert;
    } else if (level_ == Level::kAlert) {
      level_ = Level::kAlerts;
      FinishAlert();
    } else {
      level_ = Level::kEnd;
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (ignored_ > 0) return Ignore();
    if (level_ != Level::kTop || key_ != "alerts") return Unexpected();
    has_alerts_ = true;
    return Enter(Level::kAlerts);
  }

  bool end_array() override {
    if (ignored_ > 0)
      --ignored_;
    else
      level_ = Level::kTop;
    return true;
  }

  bool string(string_t& text) override {
    if (ignored_ > 0) return true;
    if (level_ == Level::kTop && key_ == "version") return Keep(text, version_);
    if (level_ == Level::kAlert && key_ == "status") return Keep(text, status_);
    if (level_ == Level::kAlert && key_ == "startsAt") return Keep(text, starts_);
    if (level_ == Level::kAlert && key_ == "fingerprint") return Keep(text, alert_.fingerprint);
    if (level_ == Level::kTexts) return AddText(text);
    return Scalar();
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (ignored_ > 0 || level_ != Level::kTop || key_ != "truncatedAlerts") return Scalar();
    payload_.truncated = number;
    return true;
  }

  // Go writes null for a list or map that is empty.
  bool null() override {
    if (ignored_ == 0 && level_ == Level::kTop && key_ == "alerts") has_alerts_ = true;
    const bool empty = level_ == Level::kTop || level_ == Level::kAlert;
    return ignored_ > 0 || empty || Unexpected();
  }
  bool boolean(bool) override { return Scalar(); }
  bool number_integer(number_integer_t) override { return Scalar(); }
  bool number_float(number_float_t, const string_t&) override { return Scalar(); }
  bool binary(binary_t&) override { return Scalar(); }

  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    if (error_.empty()) error_ = StrCat("the body is not JSON at byte ", position);
    return false;
  }

 private:
  enum class Level { kStart, kTop, kAlerts, kAlert, kTexts, kEnd };

  bool Enter(Level place) {
    if (place == Level::kTexts) map_ = key_;
    level_ = place;
    return true;
  }

  // The value of a key that is not looked at.
  bool Ignore() {
    ++ignored_;
    return true;
  }

  bool IsMap() const { return key_ == "labels" || key_ == "annotations"; }

  bool IsKnown() const {
    if (level_ == Level::kTop)
      return key_ == "version" || key_ == "alerts" || key_ == "truncatedAlerts";
    if (level_ == Level::kAlert)
      return IsMap() || key_ == "status" || key_ == "startsAt" || key_ == "fingerprint";
    return true;
  }

  // Handles a value that is neither an object nor a list, in a place where none is expected.
  bool Scalar() { return ignored_ > 0 || !IsKnown() || WrongType(); }
  // Handles an object or a list in a place where none is expected.
  bool Unexpected() { return IsKnown() ? WrongType() : Ignore(); }

  bool WrongType() {
    const std::string alert = StrCat("alerts[", index_, "]");
    switch (level_) {
      case Level::kTop:
        error_ = StrCat(key_, key_ == "alerts"    ? " is not a list"
                              : key_ == "version" ? " is not a string"
                                                  : " is not a whole number of at least 0");
        break;
      case Level::kAlerts:
        error_ = StrCat(alert, " is not an object");
        break;
      case Level::kAlert:
        error_ = StrCat(alert, ".", key_, IsMap() ? " is not an object" : " is not a string");
        break;
      case Level::kTexts:
        error_ = StrCat(alert, ".", map_, " has a value that is not a string: ", Quoted(key_));
        break;
      default:
        error_ = "the body is not a JSON object";
    }
    return false;
  }

  // Keeps one byte more than is allowed, so that a longer text is noticed.
  static bool Keep(const std::string& text, std::string& into) {
    into = text.substr(0, kMaxFingerprintBytes + 1);
    return true;
  }

  bool AddText(std::string& text) {
    if (map_ == "annotations") {
      AddAnnotation(text);
    } else if (key_.empty() || key_.size() > kMaxAlertNameBytes) {
      Invalid(StrCat("the name of a label has 0 or more than ", kMaxAlertNameBytes, " bytes"));
    } else if (text.size() > kMaxAlertValueBytes) {
      // A shortened label could name something else.
      Invalid(StrCat("label ", Quoted(key_), " has more than ", kMaxAlertValueBytes, " bytes"));
    } else if (alert_.labels.size() >= kMaxAlertLabels && !alert_.labels.contains(key_)) {
      Invalid(StrCat("there are more than ", kMaxAlertLabels, " labels"));
    } else {
      alert_.labels.insert_or_assign(std::move(key_), std::move(text));
    }
    return true;
  }

  // Annotations are for people, and are often longer than what is kept of them.
  void AddAnnotation(std::string& text) {
    const bool fits = text.size() <= kMaxAlertValueBytes;
    if (!fits) text = CutUtf8(text, kMaxAlertValueBytes);
    const bool kept =
        !key_.empty() && key_.size() <= kMaxAlertNameBytes &&
        (alert_.annotations.size() < kMaxAlertLabels || alert_.annotations.contains(key_));
    if (!fits || !kept) ++payload_.cut;
    if (kept) alert_.annotations.insert_or_assign(std::move(key_), std::move(text));
  }

  void Invalid(std::string why) {
    if (why_invalid_.empty()) why_invalid_ = std::move(why);
  }

  void FinishAlert() {
    const std::size_t index = index_++;
    if (payload_.alerts.size() >= kMaxAlertsPerPost) {
      ++payload_.too_many;
      return;
    }
    if (status_ != "firing" && status_ != "resolved")
      Invalid("status is neither firing nor resolved");
    if (!IsFingerprint(alert_.fingerprint)) Invalid("fingerprint is missing or invalid");
    if (!ParseRfc3339(starts_, alert_.starts)) Invalid("startsAt is not a time since 1970");
    if (!why_invalid_.empty()) {
      if (++payload_.invalid == 1)
        payload_.why_invalid = StrCat("alerts[", index, "]: ", why_invalid_);
      return;
    }
    alert_.firing = status_ == "firing";
    payload_.alerts.push_back(std::move(alert_));
  }

  AlertPayload payload_;
  std::string error_;
  Level level_ = Level::kStart;
  std::size_t ignored_ = 0;  // How deep the parser is in a value that is not looked at.
  std::string key_, map_;    // The current key, and the map that it is in.
  std::string version_;
  bool has_alerts_ = false;
  std::size_t index_ = 0;  // The position of the current alert.
  Alert alert_;
  std::string status_, starts_, why_invalid_;
};

}  // namespace

absl::StatusOr<AlertPayload> ParseAlerts(const std::string& body) {
  PayloadReader reader;
  const bool parsed = Json::sax_parse(body, &reader);
  return reader.Result(parsed);
}

}  // namespace strobe::trigger
