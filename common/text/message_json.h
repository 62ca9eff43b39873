// Protobuf messages that another version of Strobe may have written as JSON.
#pragma once
#include <google/protobuf/util/json_util.h>

#include <string_view>

namespace strobe {

// Fields that this version does not know are left out. False when `json` is not such a message;
// what `message` contains is then unspecified.
inline bool ReadJson(std::string_view json, google::protobuf::Message& message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  return google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &message, options)
      .ok();
}

}  // namespace strobe
