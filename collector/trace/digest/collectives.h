// Gathers the collectives of a trace in the order in which the worker arrived at them.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/trace/digest/classify.h"
#include "collector/trace/digest/digest.h"
#include "collector/trace/digest/event_times.h"
#include "collector/trace/xplane/space.h"

namespace strobe::digest {

// Names, each once.
class Names {
 public:
  static constexpr std::size_t kMaxBytes = 256;  // Longer names are cut.

  std::uint32_t Find(std::string_view name);
  std::vector<std::string> Take() && { return std::move(names_); }

 private:
  std::vector<std::string> names_{};
  std::map<std::string, std::uint32_t, std::less<>> numbers_{};
};

// What events of a plane tell about a collective, besides its name and times. PyTorch writes these
// stats to the kernels of NCCL (torch/csrc/profiler/util.h) and XLA the HLO's text.
class CollectiveStats {
 public:
  explicit CollectiveStats(const xplane::Plane& plane);

  struct Values {
    std::string_view group{}, description{}, ranks{}, hlo_op{};
    std::string_view long_name{};  // The text of the HLO instruction, if the event has it.
    std::uint32_t size = 0;
    std::uint64_t bytes = 0;
    std::int64_t sequence = -1;
    std::string_view name{};  // PyTorch's name of the collective.
  };
  absl::StatusOr<Values> Read(std::string_view event) const;

 private:
  enum Stat {
    kName,
    kGroup,
    kDescription,
    kSize,
    kRanks,
    kInElements,
    kOutElements,
    kDtype,
    kSequence,
    kHloOp,
    kLongName,
    kStats
  };
  const xplane::Plane& plane_;
  std::array<std::int64_t, kStats> ids_{};
};

class Collectives {
 public:
  // Further ones are counted only.
  static constexpr std::size_t kMaxCollectives = 65536, kMaxCommunicators = 1024;

  explicit Collectives(Names& names) : names_(names) {}

  // Adds an event that is communication. `hlo` is the text of its HLO instruction if that is known.
  // The two events of an asynchronous operation of XLA become one collective.
  void Add(std::string_view name, std::string_view hlo, const WorkClass& work,
           const CollectiveStats::Values& told, std::uint32_t device, const Times& times);
  bool any_on_device() const { return any_on_device_; }
  // Moves all into the digest, sorted and numbered. Call it once.
  void Finish(Digest& digest) &&;

 private:
  struct Begun {
    std::uint32_t communicator = 0, name = 0;
    std::int64_t begin_ps = 0;
  };
  std::uint32_t CommunicatorOf(std::string_view hlo, const CollectiveStats::Values& told);

  Names& names_;
  std::vector<Communicator> communicators_{};
  std::map<std::string, std::uint32_t, std::less<>> communicator_numbers_{};
  std::vector<Collective> all_{};
  // By device and kind: those that have begun and not ended.
  std::map<std::pair<std::uint32_t, CollectiveKind>, std::deque<Begun>> begun_{};
  bool any_on_device_ = false;
  std::uint64_t left_out_ = 0;
};

}  // namespace strobe::digest
