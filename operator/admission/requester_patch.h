// Changes of the annotation that names who created an object.
#pragma once
#include <nlohmann/json.hpp>

#include "operator/admission/review.h"

namespace strobe {

// The value of kRequesterAnnotation; null if there is none.
nlohmann::json RequesterAnnotation(const nlohmann::json& object);

// An answer that gives the object this annotation; none if `value` is null.
AdmissionAnswer SetRequesterAnnotation(const nlohmann::json& object, const nlohmann::json& value);

}  // namespace strobe
