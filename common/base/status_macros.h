// Early returns on errors. RETURN_IF_ERROR takes a Status. ASSIGN_OR_RETURN takes a StatusOr and
// assigns its value.
#pragma once
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define STROBE_CONCAT_INNER(a, b) a##b
#define STROBE_CONCAT(a, b) STROBE_CONCAT_INNER(a, b)

#define RETURN_IF_ERROR(expression)                    \
  do {                                                 \
    absl::Status status_of_macro = (expression);       \
    if (!status_of_macro.ok()) return status_of_macro; \
  } while (false)

#define ASSIGN_OR_RETURN(target, expression) \
  ASSIGN_OR_RETURN_INNER(STROBE_CONCAT(status_or_, __LINE__), target, expression)

#define ASSIGN_OR_RETURN_INNER(temporary, target, expression) \
  auto temporary = (expression);                              \
  if (!temporary.ok()) return std::move(temporary).status();  \
  target = *std::move(temporary)
