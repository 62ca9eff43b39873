#include "common/text/json.h"

#include <utility>

namespace strobe {

namespace {

// Builds the value from the parser's events. Everything returns true, so that the parser goes on.
template <typename Json>
class PartsReader final : public nlohmann::json_sax<Json> {
 public:
  using Text = typename Json::string_t;

  explicit PartsReader(const JsonParts& parts) : parts_(parts) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(typename Json::number_integer_t value) override { return Add(value); }
  bool number_unsigned(typename Json::number_unsigned_t value) override { return Add(value); }
  bool number_float(typename Json::number_float_t value, const Text&) override {
    return Add(value);
  }
  bool string(Text& value) override { return Add(std::move(value)); }
  bool binary(typename Json::binary_t&) override { return true; }  // JSON's text has none.

  bool start_object(std::size_t) override { return Begin(Json::object()); }
  bool end_object() override { return End(); }
  bool start_array(std::size_t) override { return Begin(Json::array()); }
  bool end_array() override { return End(); }

  bool key(Text& name) override {
    if (inside_skipped_ > 0) return true;
    path_.resize(open_.size());
    path_.back() = name;
    skips_next_ = parts_.keep && !parts_.keep(path_);
    if (!skips_next_) member_ = &(*open_.back())[name];
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  Json Take() { return std::move(root_); }

 private:
  // Whether the value that comes now is left out.
  bool Skips() { return std::exchange(skips_next_, false) || inside_skipped_ > 0; }

  template <typename Value>
  bool Add(Value&& value) {
    if (!Skips()) Put(Json(std::forward<Value>(value)));
    return values_ <= parts_.max_values;
  }

  Json& Put(Json value) {
    ++values_;
    if (open_.empty()) return root_ = std::move(value);
    Json& parent = *open_.back();
    if (parent.is_object()) return *member_ = std::move(value);
    parent.push_back(std::move(value));
    return parent.back();
  }

  bool Begin(Json container) {
    if (Skips()) {
      ++inside_skipped_;
    } else if (open_.size() >= parts_.max_depth) {
      // The member was made when its name came.
      if (!open_.empty() && open_.back()->is_object()) open_.back()->erase(path_.back());
      ++inside_skipped_;
    } else {
      open_.push_back(&Put(std::move(container)));
      path_.resize(open_.size());
      path_.back().clear();
    }
    return values_ <= parts_.max_values;
  }

  bool End() {
    if (inside_skipped_ > 0) {
      --inside_skipped_;
    } else {
      open_.pop_back();
      path_.resize(open_.size());
    }
    return true;
  }

  const JsonParts& parts_;
  std::size_t values_ = 0;
  Json root_ = Json(Json::value_t::discarded);
  // Objects and lists that have not ended, outermost first. A list grows only while it is the last
  // of them, so none of them moves.
  std::vector<Json*> open_;
  std::vector<std::string> path_;
  Json* member_ = nullptr;  // Gets the next value, if the last of open_ is an object.
  bool skips_next_ = false;
  std::size_t inside_skipped_ = 0;  // How many objects and lists that are left out have not ended.
};

}  // namespace

template <typename Json>
Json ReadJson(std::string_view text, const JsonParts& parts) {
  PartsReader<Json> reader(parts);
  if (!Json::sax_parse(text, &reader)) return Json(Json::value_t::discarded);
  return reader.Take();
}

template nlohmann::json ReadJson(std::string_view text, const JsonParts& parts);
template nlohmann::ordered_json ReadJson(std::string_view text, const JsonParts& parts);

}  // namespace strobe
