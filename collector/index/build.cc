#include "collector/index/build.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "collector/analysis/derived_lines.h"
#include "collector/index/links.h"
#include "collector/index/texts.h"
#include "collector/index/track_writer.h"
#include "collector/xplane/flows.h"
#include "collector/xplane/lanes.h"
#include "collector/xplane/names.h"
#include "common/base/mutex.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::index {
namespace {

constexpr std::uint32_t kMostDepth = 512;
constexpr std::uint64_t kMostEvents = std::numeric_limits<std::uint32_t>::max();

// From a plane's metadata ids to texts. Ids are small and dense in what profilers write; others are
// looked up.
class NameIds {
 public:
  NameIds(const xplane::Plane& plane, Texts& texts) {
    const std::size_t dense = 4 * plane.event_names.size() + 1024;
    dense_.resize(dense, texts.Id("?"));
    for (const auto& [id, name] : plane.event_names) {
      const std::uint32_t text = texts.Id(name.shown());
      if (id >= 0 && static_cast<std::size_t>(id) < dense)
        dense_[static_cast<std::size_t>(id)] = text;
      else
        sparse_[id] = text;
    }
  }
  std::uint32_t Of(std::int64_t id) const {
    if (id >= 0 && static_cast<std::size_t>(id) < dense_.size())
      return dense_[static_cast<std::size_t>(id)];
    const auto found = sparse_.find(id);
    return found == sparse_.end() ? dense_[dense_.size() - 1] : found->second;
  }

 private:
  std::vector<std::uint32_t> dense_;
  std::unordered_map<std::int64_t, std::uint32_t> sparse_;
};

// The trace, or the lines derived from it, which stand behind it.
struct Part {
  std::string_view bytes{};
  std::uint64_t first_place = 0;

  std::uint64_t PlaceOf(const xplane::Placed& event) const {
    return first_place + static_cast<std::uint64_t>(event.event.bytes.data() - bytes.data());
  }
};

// One line of the trace on its way into the index: a row, or one row per counter.
struct LineWork {
  const xplane::Plane* plane = nullptr;
  const xplane::Line* line = nullptr;
  const NameIds* names = nullptr;
  const Part* part = nullptr;
  std::uint32_t plane_index = 0;
  std::uint32_t derived = 0;  // As in Row.

  std::deque<TrackWriter> tracks{};
  PackedEnds ends{};              // Their tracks count from the line's first,
  std::uint32_t first_track = 0;  // which is this.
  std::vector<std::uint64_t> counts{};
  std::int64_t begin_ps = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ps = std::numeric_limits<std::int64_t>::min();
  absl::Status status{};
};

class LineReader {
 public:
  explicit LineReader(LineWork& work) : work_(work) {}

  // `events`: memory of the line before.
  absl::Status Read(std::vector<xplane::Placed>& events) {
    RETURN_IF_ERROR(xplane::PlaceEvents(*work_.line, events));
    if (events.size() >= kMostEvents)
      return absl::OutOfRangeError(StrCat("line \"", work_.line->name, "\" has ", events.size(),
                                          " events; up to ", kMostEvents, " can be shown"));
    for (const xplane::Placed& event : events) {
      work_.begin_ps = std::min(work_.begin_ps, event.begin_ps);
      work_.end_ps = std::max(work_.end_ps, event.end_ps);
    }
    RETURN_IF_ERROR(work_.line->name == xplane::kCounterLine ? ReadValues(events)
                                                             : ReadSpans(events));
    for (TrackWriter& track : work_.tracks) track.Finish();
    work_.ends.Shrink();
    return absl::OkStatus();
  }

 private:
  absl::Status ReadSpans(const std::vector<xplane::Placed>& events) {
    const xplane::FlowReader flows(*work_.plane);
    std::vector<std::vector<std::uint32_t>> track_of;  // By lane and depth.
    for (const xplane::Placed& event : events) {
      const std::uint32_t depth = std::min(event.depth, kMostDepth - 1);
      if (track_of.size() <= event.lane) track_of.resize(event.lane + 1);
      std::vector<std::uint32_t>& lane = track_of[event.lane];
      // A depth is reached only through those above it.
      while (lane.size() <= depth) {
        lane.push_back(AddTrack(event.lane, static_cast<std::uint32_t>(lane.size())));
      }
      const std::uint32_t number = lane[depth];
      TrackWriter& track = work_.tracks[number];
      if (flows.any()) {
        RETURN_IF_ERROR(flows.Read(event.event, [&](std::uint64_t id, bool incoming) {
          work_.ends.Add({id, number | (incoming ? LinkEnd::kIncoming : 0), track.events()});
        }));
      }
      const std::uint32_t name = work_.names->Of(event.event.name_id);
      Count(name);
      track.Add(event.begin_ps, event.end_ps, name, work_.part->PlaceOf(event));
    }
    return absl::OkStatus();
  }

  // A track, and so later a row, per name.
  absl::Status ReadValues(const std::vector<xplane::Placed>& events) {
    std::unordered_map<std::uint32_t, std::uint32_t> track_of;
    for (const xplane::Placed& event : events) {
      const std::uint32_t name = work_.names->Of(event.event.name_id);
      const auto [found, added] = track_of.try_emplace(name, 0);
      if (added) found->second = AddTrack(0, 0);
      std::optional<double> value;
      RETURN_IF_ERROR(ForEachStat(*work_.plane, event.event, [&](const xplane::Stat& stat) {
        if (!value) value = stat.Number();
      }));
      Count(name);
      work_.tracks[found->second].AddValue(event.begin_ps, name, work_.part->PlaceOf(event),
                                           value.value_or(0));
    }
    return absl::OkStatus();
  }

  std::uint32_t AddTrack(std::uint32_t lane, std::uint32_t depth) {
    TrackWriter& track = work_.tracks.emplace_back();
    track.track.lane = lane;
    track.track.depth = depth;
    track.track.overlapping = lane + 1 == xplane::kMaxLanes || depth + 1 == kMostDepth;
    return static_cast<std::uint32_t>(work_.tracks.size() - 1);
  }

  void Count(std::uint32_t name) {
    if (work_.counts.size() <= name) work_.counts.resize(name + 1);
    ++work_.counts[name];
  }

  LineWork& work_;
};

// Writes sections one after the other, each on 8 bytes.
class SectionWriter {
 public:
  explicit SectionWriter(const Sink& sink) : sink_(sink) {}

  absl::Status Bytes(std::string_view bytes) {
    at_ += bytes.size();
    return bytes.empty() ? absl::OkStatus() : sink_(bytes);
  }
  absl::Status All(const Chunks& chunks) {
    for (const std::string& chunk : chunks.all()) RETURN_IF_ERROR(Bytes(chunk));
    return absl::OkStatus();
  }
  template <typename T>
  absl::Status Values(const std::vector<T>& values) {
    return Bytes({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  absl::Status Pad() {
    static constexpr std::array<char, 8> kZeros{};
    return Bytes({kZeros.data(), (8 - at_ % 8) % 8});
  }

 private:
  const Sink& sink_;
  std::uint64_t at_ = 0;
};

class Builder {
 public:
  Builder(std::string_view trace, const xplane::Space& space, const BuildOptions& options)
      : trace_(trace), space_(space), options_(options) {}

  absl::Status Run(const Sink& sink) {
    RETURN_IF_ERROR(Derive());
    CollectLines();
    RETURN_IF_ERROR(ReadLines());
    LayOut();
    JoinFlows();
    return Write(sink);
  }

 private:
  absl::Status Derive() {
    ASSIGN_OR_RETURN(derived_, DeriveLines(space_));
    ASSIGN_OR_RETURN(derived_space_, xplane::Space::Read(derived_));
    derived_part_ = {derived_, trace_.size()};
    return absl::OkStatus();
  }

  void CollectLines() {
    for (const xplane::Plane& plane : space_.planes) {
      planes_.push_back({.name = texts_.Id(plane.name), .id = plane.id});
      CollectPlane(plane, trace_part_, static_cast<std::uint32_t>(planes_.size() - 1), 0);
      // A plane's derived lines right behind its own, so that its rows stand together.
      for (std::uint32_t i = 0; i < derived_space_.planes.size(); ++i) {
        const xplane::Plane& derived = derived_space_.planes[i];
        if (derived.name == plane.name && derived.id == plane.id)
          CollectPlane(derived, derived_part_, static_cast<std::uint32_t>(planes_.size() - 1),
                       i + 1);
      }
    }
  }

  void CollectPlane(const xplane::Plane& plane, const Part& part, std::uint32_t index,
                    std::uint32_t derived) {
    names_.push_back(std::make_unique<NameIds>(plane, texts_));
    for (const xplane::Line& line : plane.lines) {
      if (line.events == 0) continue;
      lines_.push_back({&plane, &line, names_.back().get(), &part, index, derived});
      texts_.Id(line.name);
    }
  }

  absl::Status ReadLines() {
    // The longest first, so that no thread is left with it at the end.
    std::vector<std::size_t> order(lines_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      return lines_[a].line->events > lines_[b].line->events;
    });
    ParallelFor(order.size(), options_.threads, [&](std::size_t i) {
      LineWork& work = lines_[order[i]];
      if (options_.stop != nullptr && *options_.stop)
        work.status = absl::CancelledError("nobody waits for the index any more");
      else
        work.status = ReadLine(work);
      if (options_.done != nullptr) *options_.done += work.line->events;
    });
    spare_.clear();
    for (const LineWork& work : lines_) RETURN_IF_ERROR(work.status);
    return absl::OkStatus();
  }

  absl::Status ReadLine(LineWork& work) {
    std::vector<xplane::Placed> events;
    {
      MutexLock lock(&mutex_);
      if (!spare_.empty()) {
        events = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    const absl::Status status = LineReader(work).Read(events);
    MutexLock lock(&mutex_);
    spare_.push_back(std::move(events));
    return status;
  }

  // Gives every track its number and its places in the sections.
  void LayOut() {
    for (LineWork& work : lines_) {
      const bool counters = work.line->name == xplane::kCounterLine;
      const auto first_track = static_cast<std::uint32_t>(tracks_.size());
      work.first_track = first_track;
      for (std::uint32_t i = 0; i < work.tracks.size(); ++i) {
        TrackWriter& made = work.tracks[i];
        if (counters)
          AddRow(work, RowKind::kCounter, made.blocks.front().name, first_track + i, 1);
        else if (i == 0)
          AddRow(work, RowKind::kSpans, texts_.Id(work.line->name), first_track,
                 static_cast<std::uint32_t>(work.tracks.size()));
        rows_.back().events += made.events();
        PlaceTrack(made);
      }
      for (std::size_t name = 0; name < work.counts.size(); ++name) {
        if (text_counts_.size() < texts_.all().size()) text_counts_.resize(texts_.all().size());
        text_counts_[name] += work.counts[name];
      }
    }
    text_counts_.resize(texts_.all().size());
  }

  void AddRow(const LineWork& work, RowKind kind, std::uint32_t name, std::uint32_t first_track,
              std::uint32_t tracks) {
    Plane& plane = planes_[work.plane_index];
    if (plane.rows++ == 0) plane.first_row = static_cast<std::uint32_t>(rows_.size());
    rows_.push_back({.plane = work.plane_index,
                     .name = name,
                     .first_track = first_track,
                     .tracks = tracks,
                     .kind = kind,
                     .derived = work.derived,
                     .id = work.line->id});
  }

  void PlaceTrack(TrackWriter& made) {
    Track track = made.track;
    track.row = static_cast<std::uint32_t>(rows_.size() - 1);
    track.first_block = blocks_;
    track.blocks = made.blocks.size();
    track.first_level = levels_.size();
    track.levels = made.levels.size();
    track.first_value = values_;
    track.first_range = ranges_;
    for (Block& block : made.blocks) block.data += event_data_;
    for (std::size_t i = 0; i < made.levels.size(); ++i) {
      levels_.push_back({.level = made.finest + static_cast<std::uint32_t>(i) * kLevelStep,
                         .first = buckets_,
                         .count = made.levels[i].size()});
      buckets_ += made.levels[i].size();
    }
    blocks_ += made.blocks.size();
    values_ += made.values.size();
    ranges_ += made.ranges.size();
    event_data_ += made.data.size();
    tracks_.push_back(track);
  }

  void JoinFlows() {
    std::vector<LinkEnd> ends;
    std::size_t size = 0;
    for (const LineWork& work : lines_) size += work.ends.size();
    ends.reserve(size);
    for (LineWork& work : lines_) work.ends.Unpack(work.first_track, ends);
    std::vector<Link> links = JoinEnds(std::move(ends), options_.threads);
    const auto tracks = static_cast<std::uint32_t>(tracks_.size());
    SortLinks(links, options_.threads);
    outs_ = EncodeLinks(links, tracks);
    TurnRound(links, options_.threads);
    ins_ = EncodeLinks(links, tracks);
    for (LinkBlock& block : ins_.blocks) block.data += outs_.data.size();
    for (std::uint32_t i = 0; i < tracks; ++i) {
      tracks_[i].first_out = outs_.first_block[i];
      tracks_[i].outs = outs_.first_block[i + 1] - outs_.first_block[i];
      tracks_[i].first_in = outs_.blocks.size() + ins_.first_block[i];
      tracks_[i].ins = ins_.first_block[i + 1] - ins_.first_block[i];
    }
  }

  absl::Status Write(const Sink& sink) {
    std::vector<std::uint64_t> text_ends;
    std::uint64_t text_bytes = 0;
    for (const std::string_view text : texts_.all()) text_ends.push_back(text_bytes += text.size());

    Header header{.source = SourceOf(trace_)};
    header.begin_ps = std::numeric_limits<std::int64_t>::max();
    for (const LineWork& work : lines_) {
      if (work.tracks.empty()) continue;  // All of its events were without a time.
      header.begin_ps = std::min(header.begin_ps, work.begin_ps);
      header.end_ps = std::max(header.end_ps, work.end_ps);
    }
    for (const Row& row : rows_) header.events += row.events;
    if (header.events == 0) header.begin_ps = header.end_ps = 0;
    const std::array<std::uint64_t, kSections> sizes = {
        planes_.size() * sizeof(Plane),
        rows_.size() * sizeof(Row),
        tracks_.size() * sizeof(Track),
        levels_.size() * sizeof(Level),
        blocks_ * sizeof(Block),
        buckets_ * sizeof(Bucket),
        ranges_ * sizeof(Range),
        values_ * sizeof(double),
        (outs_.blocks.size() + ins_.blocks.size()) * sizeof(LinkBlock),
        text_ends.size() * sizeof(std::uint64_t),
        text_counts_.size() * sizeof(std::uint64_t),
        text_bytes,
        event_data_,
        outs_.data.size() + ins_.data.size(),
        derived_.size()};
    std::uint64_t at = sizeof(Header);
    for (std::size_t i = 0; i < kSections; ++i) {
      header.extents[i] = {at, sizes[i]};
      at += (sizes[i] + 7) / 8 * 8;
    }

    SectionWriter out(sink);
    RETURN_IF_ERROR(out.Bytes({reinterpret_cast<const char*>(&header), sizeof header}));
    RETURN_IF_ERROR(out.Values(planes_));
    RETURN_IF_ERROR(out.Values(rows_));
    RETURN_IF_ERROR(out.Values(tracks_));
    RETURN_IF_ERROR(out.Values(levels_));
    RETURN_IF_ERROR(ForTracks([&](TrackWriter& t) { return out.Values(t.blocks); }));
    RETURN_IF_ERROR(WriteLevels(out));
    RETURN_IF_ERROR(ForTracks([&](TrackWriter& t) { return out.Values(t.ranges); }));
    RETURN_IF_ERROR(ForTracks([&](TrackWriter& t) { return out.Values(t.values); }));
    RETURN_IF_ERROR(out.Values(outs_.blocks));
    RETURN_IF_ERROR(out.Values(ins_.blocks));
    RETURN_IF_ERROR(out.Values(text_ends));
    RETURN_IF_ERROR(out.Values(text_counts_));
    for (const std::string_view text : texts_.all()) RETURN_IF_ERROR(out.Bytes(text));
    RETURN_IF_ERROR(out.Pad());
    RETURN_IF_ERROR(ForTracks([&](TrackWriter& t) { return out.All(t.data); }));
    RETURN_IF_ERROR(out.Pad());
    RETURN_IF_ERROR(out.All(outs_.data));
    RETURN_IF_ERROR(out.All(ins_.data));
    RETURN_IF_ERROR(out.Pad());
    RETURN_IF_ERROR(out.Bytes(derived_));
    return out.Pad();
  }

  absl::Status WriteLevels(SectionWriter& out) {
    for (const LineWork& work : lines_) {
      for (const TrackWriter& track : work.tracks) {
        for (const std::vector<Bucket>& level : track.levels) RETURN_IF_ERROR(out.Values(level));
      }
    }
    return absl::OkStatus();
  }

  absl::Status ForTracks(const std::function<absl::Status(TrackWriter&)>& write) {
    for (LineWork& work : lines_) {
      for (TrackWriter& track : work.tracks) RETURN_IF_ERROR(write(track));
    }
    return absl::OkStatus();
  }

  const std::string_view trace_;
  const xplane::Space& space_;
  const BuildOptions& options_;
  const Part trace_part_{trace_, 0};
  std::string derived_;
  xplane::Space derived_space_;
  Part derived_part_;
  Texts texts_;
  std::vector<std::unique_ptr<NameIds>> names_;
  Mutex mutex_;
  // One per thread: asking the system for as much memory anew for each line costs as much as
  // reading it.
  std::vector<std::vector<xplane::Placed>> spare_;
  std::vector<LineWork> lines_;
  std::vector<Plane> planes_;
  std::vector<Row> rows_;
  std::vector<Track> tracks_;
  std::vector<Level> levels_;
  std::vector<std::uint64_t> text_counts_;
  std::uint64_t blocks_ = 0, buckets_ = 0, values_ = 0, ranges_ = 0, event_data_ = 0;
  LinkLists outs_, ins_;
};

}  // namespace

absl::Status BuildIndex(std::string_view trace, const xplane::Space& space,
                        const BuildOptions& options, const Sink& sink) {
  const absl::Status built = Builder(trace, space, options).Run(sink);
  // First: that the trace was changed also explains why it is damaged.
  if (options.check) RETURN_IF_ERROR(options.check());
  return built;
}

Source SourceOf(std::string_view trace) {
  constexpr std::size_t kPieces = 64, kPiece = 4096;
  std::uint64_t mark = 0xcbf29ce484222325;
  const auto mix = [&mark](std::string_view piece) {
    for (; !piece.empty(); piece.remove_prefix(std::min<std::size_t>(8, piece.size()))) {
      std::uint64_t word = 0;
      std::memcpy(&word, piece.data(), std::min<std::size_t>(8, piece.size()));
      mark = (mark ^ word) * 0x9e3779b97f4a7c15;
      mark ^= mark >> 29;
    }
  };
  if (trace.size() <= kPieces * kPiece) {
    mix(trace);
  } else {
    for (std::size_t i = 0; i < kPieces; ++i)
      mix(trace.substr((trace.size() - kPiece) / (kPieces - 1) * i, kPiece));
  }
  return {trace.size(), mark};
}

}  // namespace strobe::index
