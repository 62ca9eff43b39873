// Where people see a run in a browser. Pure.
#pragma once
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace strobe::objects {

// `text` is the administrator's URL with placeholders: "https://xprof.example.com/?run={run}".
// InvalidArgument if it is not http or https, or if it has another placeholder than {run},
// {runUrl}, {namespace} and {name}. Empty is fine: there are no links.
absl::Status CheckViewerUrl(std::string_view text);

// The link to a run of a request; empty if there is no such URL or no run. {run} is the run's name,
// {runUrl} its URL, {name} the request's name, each escaped.
std::string ViewerLink(std::string_view text, std::string_view run_url, std::string_view ns,
                       std::string_view name);

}  // namespace strobe::objects
