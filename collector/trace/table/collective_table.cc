#include "collector/trace/table/collective_table.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "collector/trace/digest/digest_json.h"
#include "collector/trace/report/digest_steps.h"
#include "collector/trace/table/text_column.h"
#include "common/base/saturated.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::table {
namespace {

constexpr char kCollectiveSchema[] =
    "message collectives {"
    " optional int64 rank;"
    " required binary communicator (STRING);"
    " required binary ranks (STRING);"
    " optional int64 size;"
    " required binary kind (STRING);"
    " required binary name (STRING);"
    " required int64 call;"
    " optional int64 sequence;"
    " optional int64 step;"
    " optional int64 call_in_step;"
    " optional binary device (STRING);"
    " required int64 start_ns;"
    " required int64 end_ns;"
    " optional int64 bytes; }";
constexpr std::size_t kMaxStepsOfCalls = 1 << 20;

// Integers of a column in which rows may have no value.
struct Optionals {
  std::vector<std::int64_t> values{};
  std::vector<std::uint8_t> present{};

  void Add(bool known, std::int64_t value) {
    values.push_back(known ? value : 0);
    present.push_back(known);
  }
  Column column() const { return {.integers = values, .present = present}; }
};

class CollectiveRows {
 public:
  CollectiveRows(const Digest& digest, std::int64_t shift_ns)
      : digest_(digest), shift_ns_(shift_ns) {
    std::string_view loop;
    steps_ = report::StepsOf(digest, kMaxStepsOfCalls, loop);
  }

  void Add(const DigestCollective& call) {
    static const DigestCommunicator kUnnamed;
    const DigestCommunicator& group = call.communicator < digest_.communicators.size()
                                          ? digest_.communicators[call.communicator]
                                          : kUnnamed;
    ranks_.Add(digest_.rank.has_value(), digest_.rank.value_or(0));
    communicators_.Add(group.name);
    groups_.Add(RanksOf(call.communicator, group));
    sizes_.Add(group.size > 0, group.size);
    kinds_.Add(NameOf(call.kind));
    names_.Add(digest_.names[call.name]);
    calls_.push_back(call.ordinal);
    sequences_.Add(call.sequence >= 0, call.sequence);
    AddStep(call);
    const bool on_device = call.device < digest_.devices.size();
    devices_.Add(on_device ? std::string_view(digest_.devices[call.device].name) : "");
    has_device_.push_back(on_device);
    starts_.push_back(AddSaturated(shift_ns_, call.begin_ns));
    ends_.push_back(AddSaturated(shift_ns_, call.end_ns));
    bytes_.Add(call.bytes > 0, static_cast<std::int64_t>(call.bytes));
  }

  absl::Status Write(ParquetFile& file) const {
    Column devices = devices_.column();
    devices.present = has_device_;
    const Column columns[] = {ranks_.column(),
                              communicators_.column(),
                              groups_.column(),
                              sizes_.column(),
                              kinds_.column(),
                              names_.column(),
                              {.integers = calls_},
                              sequences_.column(),
                              step_numbers_.column(),
                              in_step_.column(),
                              devices,
                              {.integers = starts_},
                              {.integers = ends_},
                              bytes_.column()};
    return starts_.empty() ? absl::OkStatus() : file.Write(columns, starts_.size());
  }

 private:
  // The ranks of a communicator as a text that lives as long as the rows.
  std::string_view RanksOf(std::uint32_t number, const DigestCommunicator& group) {
    const auto [entry, fresh] = ranks_of_.try_emplace(number);
    if (fresh) {
      for (const std::uint32_t rank : group.ranks)
        entry->second += StrCat(entry->second.empty() ? "" : ",", rank);
    }
    return entry->second;
  }

  // The step in which the call began, and how many of its kind began before it in that step.
  void AddStep(const DigestCollective& call) {
    const std::int64_t begin_ns = report::CommonTime(digest_, call.begin_ns);
    const auto next = std::partition_point(steps_.begin(), steps_.end(), [&](const auto& step) {
      return step.time.begin_ns <= begin_ns;
    });
    const bool known = next != steps_.begin() && begin_ns < std::prev(next)->time.end_ns;
    const std::int64_t number = known ? std::prev(next)->number : 0;
    step_numbers_.Add(known, number);
    auto& before = before_[{call.communicator, call.name, call.device}];
    if (known && before.first != number) before = {number, 0};
    in_step_.Add(known, known ? before.second++ : 0);
  }

  const Digest& digest_;
  const std::int64_t shift_ns_;
  std::vector<report::WorkerStepTime> steps_{};
  // The last step of each collective, and how many calls it has had in that step.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>,
           std::pair<std::int64_t, std::int64_t>>
      before_{};
  std::map<std::uint32_t, std::string> ranks_of_{};  // By communicator.
  Optionals ranks_{}, sizes_{}, sequences_{}, step_numbers_{}, in_step_{}, bytes_{};
  TextColumn communicators_{}, groups_{}, kinds_{}, names_{}, devices_{};
  std::vector<std::uint8_t> has_device_{};
  std::vector<std::int64_t> calls_{}, starts_{}, ends_{};
};

}  // namespace

absl::Status WriteCollectiveTable(const Digest& digest, std::int64_t shift_ns,
                                  ParquetFile::Sink sink) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ParquetFile> file,
                   ParquetFile::Create(kCollectiveSchema, std::move(sink)));
  CollectiveRows rows(digest, shift_ns);
  for (const DigestCollective& call : digest.collectives) rows.Add(call);
  RETURN_IF_ERROR(rows.Write(*file));
  return file->Finish();
}

}  // namespace strobe::table
