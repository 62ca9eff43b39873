// What a program that begins in mid-capture is told to do before a sidecar has found its ring file.
#pragma once
#include <string>

#include "agent/wire/layout.h"
#include "agent/wire/ring_file.h"

namespace strobe::agent {

// The orders of the directory; those that ask for nothing when there are none.
wire::Orders ReadOrders(const std::string& directory);
void Obey(const wire::Orders& orders, const wire::RingFile& file);

}  // namespace strobe::agent
