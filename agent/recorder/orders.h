// The requests that a program follows if it starts during a capture, before a sidecar has found its
// ring file.
#pragma once
#include <string>

#include "agent/wire/layout.h"
#include "agent/wire/ring_file.h"

namespace strobe::agent {

// Reads the orders of the directory. Without a valid file, returns orders that request nothing.
wire::Orders ReadOrders(const std::string& directory);
// Writes the orders into the header of the program's own ring file.
void Obey(const wire::Orders& orders, const wire::RingFile& file);

}  // namespace strobe::agent
