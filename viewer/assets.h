// The pages of web/, embedded into the program when it is built.
#pragma once
#include <span>
#include <string_view>

namespace strobe::viewer {

struct Asset {
  std::string_view path{};  // In URLs: "/" for index.html, "/style.css", "/app.js".
  std::string_view content_type{};
  std::string_view body{};
};

std::span<const Asset> Assets();

}  // namespace strobe::viewer
