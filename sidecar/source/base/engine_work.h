// What the engine of an inference server did while its process was recorded, as the process tells
// it. The process may be hostile. Pure.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "strobe/v1/worker.pb.h"

namespace strobe::source {

// The member "engine" of the last line that a process sends; none if it has none.
std::optional<v1::EngineWork> EngineWorkIn(const nlohmann::json& line);

// Whether the process runs a model, and ran it for no request.
bool HadNoRequests(const v1::EngineWork& work);

// For people: how many iterations, requests and tokens, or that there was no request and what
// helps.
std::string EngineWords(const v1::EngineWork& work);

}  // namespace strobe::source
