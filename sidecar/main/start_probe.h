// The start-up probe of injected sidecars, and the file that it looks for.
#pragma once
#include <optional>
#include <string>

namespace strobe {

// The exit code if the program was started as a probe, with --is-started FILE alone: 0 if the file
// exists. Looked at before flags are parsed, because the probe has the environment of the sidecar,
// and a wrong variable in it must not fail the probe.
std::optional<int> AnswerProbe(int argc, const char* const* argv);

// The value of --started-file=FILE, for flags that cannot be parsed, such as those of a newer
// operator; empty if there is none.
std::string StartedFileOf(int argc, const char* const* argv);

// Creates the file, unless its name is empty. Logs an error.
void MarkStarted(const std::string& file);

}  // namespace strobe
