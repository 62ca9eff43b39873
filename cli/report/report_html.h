// Writes a report as one HTML file. Pure.
#pragma once
#include <string>

#include "cli/report/report_document.h"

namespace strobe::cli {

// The page needs no other file, has no script and connects to nothing: its policy forbids both,
// whatever names the traces contain. It follows the browser's light or dark theme.
std::string RenderHtml(const ReportDocument& document);

}  // namespace strobe::cli
