#include "agent/recorder/orders.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>

namespace strobe::agent {

wire::Orders ReadOrders(const std::string& directory) {
  wire::Orders orders{};
  const std::string path = directory + "/orders";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const bool whole = file >= 0 && read(file, &orders, sizeof orders) == sizeof orders;
  if (file >= 0) close(file);
  if (whole && orders.magic == wire::kMagic && orders.version == wire::kVersion) return orders;
  wire::Orders none{};
  none.filter = ~0u;
  return none;
}

void Obey(const wire::Orders& orders, const wire::RingFile& file) {
  wire::FileHeader& header = *file.header();
  header.filter = orders.filter;
  for (std::size_t i = 0; i < orders.framework_ports.size(); ++i)
    header.framework_ports[i] = orders.framework_ports[i];
  header.attend_until = orders.attend_until;
  header.device_until = orders.device_until;
  header.device_mode = orders.device_mode;
  header.device_control = orders.devices;
  for (std::size_t i = 0; i < wire::kWishers; ++i)
    file.Wish(static_cast<wire::Wisher>(i), orders.wishes[i]);
}

}  // namespace strobe::agent
