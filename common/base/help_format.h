// How --help is laid out: lines that fit the terminal, and what a flag takes in a word or two.
// Formatter, App and Option are those of CLI11, which only programs include.
#pragma once
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace strobe {

// Breaks `text` at spaces. Lines after the first one begin with `indent` spaces.
inline std::string WrapText(std::string_view text, std::size_t indent, std::size_t width) {
  std::string lines;
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > indent && column + 1 + end > width) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      lines += ' ';
      ++column;
    }
    lines += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// What a flag takes, from CLI11's "TEXT", "UINT:INT in [1 - 100]" or "TEXT:{json,yaml}".
struct FlagValue {
  std::string name;      // "TEXT", "NUMBER", "json|yaml"
  std::string limits{};  // "1 to 100"
};

inline FlagValue FlagValueOf(const std::string& type) {
  const std::size_t colon = std::min(type.find(':'), type.size());
  const std::string check = type.substr(std::min(colon + 1, type.size()));
  FlagValue value{.name = type.substr(0, colon)};
  if (value.name == "UINT" || value.name == "INT") value.name = "NUMBER";
  if (check == "FILE" || check.starts_with("SIZE ")) value.name = check.substr(0, 4);
  if (check.starts_with('{')) {
    value.name = check.substr(1, check.size() - 2);
    std::replace(value.name.begin(), value.name.end(), ',', '|');
  }
  constexpr std::string_view kIn = " in [", kTo = " - ";
  const std::size_t in = check.find(kIn), to = check.find(kTo);
  constexpr std::size_t kMostDigits = 6;  // More are no limit that anybody meets.
  if (in != std::string::npos && to != std::string::npos &&
      check.size() - to <= kTo.size() + kMostDigits + 1) {
    const std::size_t first = in + kIn.size();
    value.limits = check.substr(first, to - first) + " to " + check.substr(to + kTo.size());
    value.limits.pop_back();
  }
  return value;
}

template <typename Formatter, typename App, typename Option>
class HelpFormat : public Formatter {
 public:
  HelpFormat() {
    winsize size{};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
      width_ = std::clamp<std::size_t>(size.ws_col, 40, width_);
    if (width_ < 80) column_ = 8;
  }

  std::string make_description(const App* app) const override {
    return WrapText(app->get_description(), 0, width_) + "\n";
  }
  std::string make_subcommand(const App* command) const override {
    return Row(command->get_name(), command->get_description());
  }
  std::string make_option(const Option* option, bool is_positional) const override {
    std::string left = this->make_option_name(option, is_positional);
    std::string about = option->get_description();
    if (option->get_type_size() != 0) {
      const FlagValue value = FlagValueOf(option->get_type_name());
      if (!is_positional && !value.name.empty()) left += " " + value.name;
      if (option->get_expected_max() > 1) left += " ...";
      if (!value.limits.empty()) {
        const std::size_t end = about.ends_with(']') ? about.rfind(" [") : about.size();
        about.insert(end, " (" + value.limits + ")");
      }
      if (option->get_required() && !is_positional) about += " (required)";
      std::string given = option->get_default_str();
      if (given == "[]") given.clear();
      if (!given.empty())
        about += given.front() == '[' && given.back() == ']' ? " " + given : " [" + given + "]";
    }
    if (!option->get_envname().empty()) about += " ($" + option->get_envname() + ")";
    return Row(left, about);
  }
  // Leaves indented lines as they are: examples.
  std::string make_footer(const App* app) const override {
    const std::string footer = app->get_footer();
    std::string text;
    std::string_view rest = footer;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      text += (line.starts_with(' ') ? std::string(line) : WrapText(line, 0, width_)) + "\n";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return text;
  }
  // CLI11 begins each group with an empty line and puts another one between groups.
  std::string make_usage(const App* app, std::string name) const override {
    for (const Option* option : app->get_options()) {
      if (option->get_required() && option->nonpositional())
        name += " " + option->get_name() + " " + FlagValueOf(option->get_type_name()).name;
    }
    return Formatter::make_usage(app, std::move(name)) + "\n";
  }
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const Option*> options) const override {
    return Formatter::make_group(std::move(group), is_positional, std::move(options)).substr(1) +
           (is_positional ? "\n" : "");
  }

 private:
  std::string Row(const std::string& name, const std::string& about) const {
    std::string row = "  " + name;
    if (about.empty()) return row + "\n";
    if (row.size() + 2 > column_)
      row += "\n" + std::string(column_, ' ');
    else
      row.resize(column_, ' ');
    return row + WrapText(about, column_, width_) + "\n";
  }

  std::size_t width_ = 100, column_ = 30;
};

}  // namespace strobe
