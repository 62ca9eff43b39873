#include "sidecar/source/device/occupancy.h"

#include <algorithm>

namespace strobe {
namespace {

// Registers are allocated per warp in portions of this size.
constexpr std::uint64_t kRegistersTogether = 256;
// Each scheduler of a core has its own quarter of the registers.
constexpr std::uint64_t kSchedulers = 4;

std::uint64_t RoundUp(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

}  // namespace

double OccupancyPercent(const wire::KernelRecord& kernel, const wire::DeviceRecord& device) {
  if (device.warp == 0 || device.threads < device.warp) return 0;
  const std::uint64_t threads =
      static_cast<std::uint64_t>(kernel.block[0]) * kernel.block[1] * kernel.block[2];
  if (threads == 0 || threads > device.threads) return 0;
  const std::uint64_t warps = RoundUp(threads, device.warp) / device.warp;
  const std::uint64_t max_warps = device.threads / device.warp;
  std::uint64_t blocks = std::min<std::uint64_t>(max_warps / warps, device.blocks);
  if (kernel.registers > 0) {
    const std::uint64_t per_warp =
        RoundUp(static_cast<std::uint64_t>(kernel.registers) * device.warp, kRegistersTogether);
    const std::uint64_t by_registers =
        device.registers / kSchedulers / per_warp * kSchedulers / warps;
    blocks = std::min(blocks, by_registers);
  }
  // Used by the CUDA runtime, per block.
  const std::uint64_t reserved = device.major >= 8 ? 1024 : 0;
  const std::uint64_t portion = device.major >= 8 ? 128 : 256;
  const std::uint64_t shared = RoundUp(
      static_cast<std::uint64_t>(kernel.static_shared) + kernel.dynamic_shared + reserved, portion);
  if (shared > 0) blocks = std::min(blocks, device.shared / shared);
  return 100.0 * static_cast<double>(blocks * warps) / static_cast<double>(max_warps);
}

}  // namespace strobe
