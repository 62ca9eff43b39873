// Writes a report as Markdown with GitHub's tables, for issues and chats. Pure.
#pragma once
#include <string>
#include <string_view>

#include "cli/report/report_document.h"

namespace strobe::cli {

// Pictures are left out. Text of unknown origin cannot become markup, whichever of the common
// dialects shows it: names are code, in which "`" and "|" are replaced by "'" and a broken bar.
std::string RenderMarkdown(const ReportDocument& document);

}  // namespace strobe::cli
