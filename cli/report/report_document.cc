#include "cli/report/report_document.h"

#include "absl/strings/escaping.h"
#include "cli/report/markup.h"
#include "common/base/hash.h"
#include "common/base/strings.h"
#include "common/base/version.h"
#include "common/text/safe_text.h"

namespace strobe::cli {
namespace {

std::string TextOf(const DocumentSection& section) {
  std::string text;
  if (section.list) text += StrCat(section.heading, ":\n");
  for (const std::string& line : section.lines)
    text += StrCat(section.list ? "  " : "", WithoutControls(line), "\n");
  std::vector<Row> rows = section.rows;
  for (Row& row : rows) {
    for (std::string& cell : row) cell = WithoutControls(cell);
  }
  if (!text.empty() && !rows.empty()) text += "\n";
  text += AlignRows(rows);
  for (const std::string& note : section.notes) text += StrCat(WithoutControls(note), "\n");
  return text;
}

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

constexpr std::size_t kMaxHtmlCell = 300;
constexpr std::size_t kShortCell = 32;  // Bytes that are not wrapped.

constexpr std::string_view kStyle = R"css(
:root {
  color-scheme: light dark;
  --back: #ffffff; --face: #f3f4f6; --line: #c9ced6; --text: #1b1f24; --soft: #545d68;
  --mark: #b3261e; --bar: #7b93b8; --heat: #b3261e;
  --p0: #2f6fd6; --p1: #d1740a; --p2: #7a52c7; --p3: #c2356b; --p4: #8a6d00; --p5: #0f8a7e; --p6: #c9ced6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14171c; --face: #1e232b; --line: #3a414d; --text: #e6e9ee; --soft: #a3adba;
    --mark: #ff8a80; --bar: #6480aa; --heat: #ff8a80;
    --p0: #6ea3f5; --p1: #f0a04b; --p2: #b394f0; --p3: #f07ba6; --p4: #cdb33c; --p5: #4cc3b4; --p6: #3a414d;
  }
}
body { margin: 0 auto; max-width: 1100px; padding: 20px; background: var(--back); color: var(--text);
  font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 16px; margin: 0; color: var(--soft); font-weight: 500; overflow-wrap: anywhere; }
h2 { font-size: 15px; margin: 28px 0 8px; }
.headline { font-size: 21px; line-height: 1.35; font-weight: 600; margin: 4px 0 16px; overflow-wrap: anywhere; }
p, ul { margin: 6px 0; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: 11px; white-space: nowrap; vertical-align: bottom; }
th, td { padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.short { white-space: nowrap; }
.name { font-family: ui-monospace, monospace; font-size: 12px; overflow-wrap: anywhere; min-width: 16ch; }
figure { margin: 8px 0 16px; overflow-x: auto; }
svg { display: block; width: 100%; min-width: 640px; }
svg text { font: 12px system-ui, sans-serif; fill: var(--text); }
svg .soft { fill: var(--soft); }
svg .end { text-anchor: end; }
svg .marked { fill: var(--mark); font-weight: 600; }
.p0 { fill: var(--p0); } .p1 { fill: var(--p1); } .p2 { fill: var(--p2); } .p3 { fill: var(--p3); }
.p4 { fill: var(--p4); } .p5 { fill: var(--p5); } .p6 { fill: var(--p6); }
.w0 { fill: var(--face); } .w1, .w2, .w3, .w4, .w5 { fill: var(--heat); }
.w1 { opacity: 0.16; } .w2 { opacity: 0.34; } .w3 { opacity: 0.54; } .w4 { opacity: 0.76; }
.bar { fill: var(--bar); } .mark, .more { fill: var(--mark); } .less { fill: var(--p5); } .axis { fill: var(--soft); }
footer { margin-top: 32px; color: var(--soft); font-size: 12px; }
)css";

std::string Policy() {
  Sha256 sum;
  sum.Update(kStyle);
  const std::string hex = sum.Hex();
  const std::string bytes = absl::HexStringToBytes(hex);
  return StrCat("default-src 'none'; style-src 'sha256-", absl::Base64Escape(bytes),
                "'; base-uri 'none'; form-action 'none'");
}

std::string CellHtml(const std::string& cell, Column kind, bool heading) {
  const std::string text = HtmlText(cell, kMaxHtmlCell);
  const std::string_view tag = heading ? "th" : "td";
  std::string_view style;
  if (kind == Column::kNumber) style = " class=\"n\"";
  if (kind == Column::kName && !heading) style = " class=\"name\"";
  if (kind == Column::kText && cell.size() < kShortCell) style = " class=\"short\"";
  // A name with characters that are written from right to left must not turn the row around.
  return StrCat("<", tag, heading ? " scope=\"col\"" : "", style, ">",
                heading ? text : StrCat("<bdi>", text, "</bdi>"), "</", tag, ">");
}

std::string TableHtml(const DocumentSection& section) {
  std::string html = StrCat("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"",
                            HtmlText(section.heading), "\">\n<table>\n");
  for (std::size_t i = 0; i < section.rows.size(); ++i) {
    html += i == 0 ? "<thead><tr>" : "<tr>";
    for (std::size_t column = 0; column < section.rows[i].size(); ++column)
      html += CellHtml(section.rows[i][column], section.columns.at(column), i == 0);
    html += i == 0 ? "</tr></thead>\n<tbody>\n" : "</tr>\n";
  }
  return html + "</tbody>\n</table>\n</div>\n";
}

std::string SectionHtml(const DocumentSection& section) {
  std::string html = "<section>\n";
  if (!section.heading.empty()) html += StrCat("<h2>", HtmlText(section.heading), "</h2>\n");
  const std::string_view tag = section.list ? "li" : "p";
  if (section.list) html += "<ul>\n";
  for (const std::string& line : section.lines)
    html += StrCat("<", tag, ">", HtmlText(line), "</", tag, ">\n");
  if (section.list) html += "</ul>\n";
  if (!section.picture.empty())
    html += StrCat("<figure tabindex=\"0\">\n", section.picture, "</figure>\n");
  if (!section.rows.empty()) html += TableHtml(section);
  for (const std::string& note : section.notes) html += StrCat("<p>", HtmlText(note), "</p>\n");
  return html + "</section>\n";
}

}  // namespace

std::string RenderText(const ReportDocument& document) {
  std::string text = StrCat(WithoutControls(document.headline), "\n");
  for (const DocumentSection& section : document.sections) {
    const std::string of_section = TextOf(section);
    if (!of_section.empty()) text += StrCat("\n", of_section);
  }
  return text;
}

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

std::string RenderHtml(const ReportDocument& document) {
  const std::string title = HtmlText(document.title);
  std::string html = StrCat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"",
      Policy(),
      "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      title, "</title>\n<style>", kStyle, "</style>\n</head>\n<body>\n<main>\n<h1>", title,
      "</h1>\n<p class=\"headline\">", HtmlText(document.headline), "</p>\n");
  for (const DocumentSection& section : document.sections) html += SectionHtml(section);
  return StrCat(html, "</main>\n<footer>strobe ", kVersion, "</footer>\n</body>\n</html>\n");
}

}  // namespace strobe::cli
