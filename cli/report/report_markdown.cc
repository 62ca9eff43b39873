#include "cli/report/report_markdown.h"

#include "common/base/strings.h"
#include "common/text/plain_text.h"
#include "common/text/utf8.h"

namespace strobe::cli {
namespace {

constexpr std::size_t kMaxCellBytes = 300, kMaxLineBytes = 2000;

// Characters that mean something to any dialect are written by number, because not all dialects
// accept a backslash before each of them. That includes characters that turn plain words into links
// or mentions.
std::string MarkdownText(std::string_view unknown, std::size_t max_bytes = kMaxLineBytes) {
  constexpr std::string_view kMeaningful = "\\`*_{}[]<>#|~!@&$^";
  const std::string text = WithoutControls(CutUtf8(unknown, max_bytes));
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i);
    const bool link = rest.starts_with("://") || rest.starts_with("www.");
    if (link || kMeaningful.find(text[i]) != std::string_view::npos)
      escaped += StrCat("&#", static_cast<int>(static_cast<unsigned char>(text[i])), ";");
    else
      escaped.push_back(text[i]);
  }
  return escaped;
}

std::string MarkdownName(std::string_view unknown) {
  std::string name;
  for (const char c : WithoutControls(CutUtf8(unknown, kMaxCellBytes))) {
    if (c == '`')
      name.push_back('\'');
    else if (c == '|')
      name += "\u00a6";
    else
      name.push_back(c);
  }
  const std::size_t first = name.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return StrCat("`", name.substr(first, name.find_last_not_of(' ') - first + 1), "`");
}

std::string MarkdownRow(const std::vector<std::string>& cells) {
  return StrCat("| ", Join(cells, " | "), " |\n");
}

std::string MarkdownTable(const DocumentSection& section) {
  std::string text;
  for (std::size_t i = 0; i < section.rows.size(); ++i) {
    std::vector<std::string> cells, rule;
    for (std::size_t column = 0; column < section.rows[i].size(); ++column) {
      const std::string& cell = section.rows[i][column];
      const Column kind = section.columns.at(column);
      cells.push_back(kind == Column::kName && i > 0 ? MarkdownName(cell)
                                                     : MarkdownText(cell, kMaxCellBytes));
      rule.emplace_back(kind == Column::kNumber ? "---:" : "---");
    }
    text += MarkdownRow(cells);
    if (i == 0) text += MarkdownRow(rule);
  }
  return text;
}

std::string MarkdownLines(const std::vector<std::string>& lines, bool list) {
  std::string text;
  for (const std::string& line : lines)
    text += StrCat(list ? "- " : "", MarkdownText(line), list ? "\n" : "\n\n");
  return list && !text.empty() ? text + "\n" : text;
}

}  // namespace

std::string RenderMarkdown(const ReportDocument& document) {
  std::string text = StrCat("# ", MarkdownText(document.title), "\n\n**",
                            MarkdownText(document.headline), "**\n\n");
  for (const DocumentSection& section : document.sections) {
    if (section.lines.empty() && section.rows.empty()) continue;
    if (!section.heading.empty()) text += StrCat("## ", MarkdownText(section.heading), "\n\n");
    text += MarkdownLines(section.lines, section.list);
    if (!section.rows.empty()) text += MarkdownTable(section) + "\n";
    text += MarkdownLines(section.notes, /*list=*/false);
  }
  while (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace strobe::cli
