#include "collector/trace/index/build.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <numeric>

#include "collector/trace/analysis/derived_lines.h"
#include "collector/trace/index/line_reader.h"
#include "collector/trace/xplane/names.h"
#include "common/base/mutex.h"
#include "common/base/parallel.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::index {
namespace {

// The order of planes, rows and tracks in the index, and where in its sections the tracks' records
// are.
struct Layout {
  // Gives the tracks of a line their numbers and offsets.
  void AddLine(LineWork& work, Texts& texts) {
    const bool counters = work.line->name == xplane::kCounterLine;
    work.first_track = static_cast<std::uint32_t>(tracks.size());
    for (std::uint32_t i = 0; i < work.tracks.size(); ++i) {
      TrackWriter& made = work.tracks[i];
      if (counters)
        AddRow(work, RowKind::kCounter, made.blocks.front().name, 1);
      else if (i == 0)
        AddRow(work, RowKind::kSpans, texts.Id(work.line->name),
               static_cast<std::uint32_t>(work.tracks.size()));
      rows.back().events += made.events();
      AddTrack(made);
    }
  }

  std::vector<Plane> planes{};
  std::vector<Row> rows{};
  std::vector<Track> tracks{};
  std::vector<Level> levels{};
  // How many records, or bytes of event data, the tracks have.
  std::uint64_t blocks = 0, buckets = 0, values = 0, ranges = 0, event_data = 0;

 private:
  // The row begins with the next track.
  void AddRow(const LineWork& work, RowKind kind, std::uint32_t name, std::uint32_t its_tracks) {
    Plane& plane = planes[work.plane_index];
    if (plane.rows++ == 0) plane.first_row = static_cast<std::uint32_t>(rows.size());
    rows.push_back({.plane = work.plane_index,
                    .name = name,
                    .first_track = static_cast<std::uint32_t>(tracks.size()),
                    .tracks = its_tracks,
                    .kind = kind,
                    .derived = work.derived,
                    .id = work.line->id});
  }

  void AddTrack(TrackWriter& made) {
    Track track = made.track;
    track.row = static_cast<std::uint32_t>(rows.size() - 1);
    track.first_block = blocks;
    track.blocks = made.blocks.size();
    track.first_level = levels.size();
    track.levels = made.levels.size();
    track.first_value = values;
    track.first_range = ranges;
    for (Block& block : made.blocks) block.data += event_data;
    for (std::size_t i = 0; i < made.levels.size(); ++i) {
      levels.push_back({.level = made.finest + static_cast<std::uint32_t>(i) * kLevelStep,
                        .first = buckets,
                        .count = made.levels[i].size()});
      buckets += made.levels[i].size();
    }
    blocks += made.blocks.size();
    values += made.values.size();
    ranges += made.ranges.size();
    event_data += made.data.size();
    tracks.push_back(track);
  }
};

// Makes the index in memory, reading the lines in parallel, and then writes it section by section.
class Builder {
 public:
  Builder(std::string_view trace, const xplane::Space& space, const BuildOptions& options)
      : trace_(trace), space_(space), options_(options) {}

  absl::Status Run(const Sink& sink) {
    RETURN_IF_ERROR(Derive());
    OpenSpill();
    CollectLines();
    RETURN_IF_ERROR(ReadLines());
    LayOut();
    JoinFlows();
    return Write(sink);
  }

 private:
  absl::Status Derive() {
    ASSIGN_OR_RETURN(derived_, analysis::DeriveLines(space_, &derived_from_));
    ASSIGN_OR_RETURN(derived_space_, xplane::Space::Read(derived_));
    derived_bytes_ = {derived_, trace_.size()};
    return absl::OkStatus();
  }

  void OpenSpill() {
    std::uint64_t events = 0;
    for (const xplane::Plane& plane : space_.planes) events += plane.events();
    if (options_.spill_directory.empty() || events < options_.min_spilled_events) return;
    // Without it, the index is made in memory.
    if (auto spill = Spill::Create(options_.spill_directory); spill.ok())
      spill_ = *std::move(spill);
  }

  void CollectLines() {
    for (std::uint32_t number = 0; number < space_.planes.size(); ++number) {
      const xplane::Plane& plane = space_.planes[number];
      layout_.planes.push_back({.name = texts_.Id(plane.name), .id = plane.id});
      CollectPlane(plane, trace_bytes_, number, 0);
      // Derived lines follow the plane's own ones, so that a viewer finds all of its rows together.
      for (std::uint32_t i = 0; i < derived_from_.size(); ++i) {
        if (derived_from_[i] == number)
          CollectPlane(derived_space_.planes[i], derived_bytes_, number, i + 1);
      }
    }
  }

  void CollectPlane(const xplane::Plane& plane, const EventBytes& source, std::uint32_t index,
                    std::uint32_t derived) {
    names_.push_back(std::make_unique<NameIds>(plane, texts_));
    for (const xplane::Line& line : plane.lines) {
      if (line.events == 0) continue;
      lines_.push_back({.plane = &plane,
                        .line = &line,
                        .names = names_.back().get(),
                        .source = &source,
                        .plane_index = index,
                        .derived = derived,
                        .spill = spill_.get()});
      texts_.Id(line.name);
    }
  }

  absl::Status ReadLines() {
    // The longest lines go first, so that no thread is left alone with one of them at the end.
    std::vector<std::size_t> order(lines_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      return lines_[a].line->events > lines_[b].line->events;
    });
    ParallelFor(order.size(), options_.threads, [&](std::size_t i) {
      LineWork& work = lines_[order[i]];
      if (options_.stop != nullptr && *options_.stop)
        work.status = absl::CancelledError("the index is no longer wanted");
      else
        work.status = ReadWithSpareRoom(work);
      if (options_.done != nullptr) *options_.done += work.line->events;
    });
    spare_.clear();
    for (const LineWork& work : lines_) RETURN_IF_ERROR(work.status);
    return absl::OkStatus();
  }

  absl::Status ReadWithSpareRoom(LineWork& work) {
    std::vector<xplane::Placed> events;
    {
      MutexLock lock(&mutex_);
      if (!spare_.empty()) {
        events = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    const absl::Status status = ReadLine(work, events);
    MutexLock lock(&mutex_);
    spare_.push_back(std::move(events));
    return status;
  }

  void LayOut() {
    for (LineWork& work : lines_) {
      layout_.AddLine(work, texts_);
      for (std::size_t name = 0; name < work.counts.size(); ++name) {
        if (text_counts_.size() < texts_.all().size()) text_counts_.resize(texts_.all().size());
        text_counts_[name] += work.counts[name];
      }
    }
    text_counts_.resize(texts_.all().size());
  }

  void JoinFlows() {
    std::vector<LineEnds> ends;
    std::vector<const TrackWriter*> writers;
    for (LineWork& work : lines_) {
      ends.push_back({&work.ends, work.first_track});
      for (const TrackWriter& track : work.tracks) writers.push_back(&track);
    }
    const auto tracks = static_cast<std::uint32_t>(layout_.tracks.size());
    const auto begin_of = [&writers](std::uint32_t track, std::uint32_t ordinal) {
      return writers[track]->BeginOf(ordinal);
    };
    JoinedLinks links =
        JoinLines(ends, tracks, options_.threads, begin_of, kMaxEndsAtOnce, spill_.get());
    outs_ = std::move(links.outs);
    ins_ = std::move(links.ins);
    for (LinkBlock& block : ins_.blocks) block.data += outs_.data.size();
    for (std::uint32_t i = 0; i < tracks; ++i) {
      layout_.tracks[i].first_out = outs_.first_block[i];
      layout_.tracks[i].outs = outs_.first_block[i + 1] - outs_.first_block[i];
      layout_.tracks[i].first_in = outs_.blocks.size() + ins_.first_block[i];
      layout_.tracks[i].ins = ins_.first_block[i + 1] - ins_.first_block[i];
    }
  }

  absl::Status Write(const Sink& sink) {
    std::vector<std::uint64_t> text_ends;
    std::uint64_t text_bytes = 0;
    for (const std::string_view text : texts_.all()) text_ends.push_back(text_bytes += text.size());

    Header header{.source = options_.source ? *options_.source : SourceOf(trace_)};
    header.begin_ps = std::numeric_limits<std::int64_t>::max();
    for (const LineWork& work : lines_) {
      if (work.tracks.empty()) continue;  // None of its events has a time.
      header.begin_ps = std::min(header.begin_ps, work.begin_ps);
      header.end_ps = std::max(header.end_ps, work.end_ps);
    }
    for (const Row& row : layout_.rows) header.events += row.events;
    if (header.events == 0) header.begin_ps = header.end_ps = 0;
    const std::array<std::uint64_t, kSections> sizes = {
        layout_.planes.size() * sizeof(Plane),
        layout_.rows.size() * sizeof(Row),
        layout_.tracks.size() * sizeof(Track),
        layout_.levels.size() * sizeof(Level),
        layout_.blocks * sizeof(Block),
        layout_.buckets * sizeof(Bucket),
        layout_.ranges * sizeof(Range),
        layout_.values * sizeof(double),
        (outs_.blocks.size() + ins_.blocks.size()) * sizeof(LinkBlock),
        text_ends.size() * sizeof(std::uint64_t),
        text_counts_.size() * sizeof(std::uint64_t),
        text_bytes,
        layout_.event_data,
        outs_.data.size() + ins_.data.size(),
        derived_.size()};
    std::uint64_t at = sizeof(Header);
    for (std::size_t i = 0; i < kSections; ++i) {
      header.extents[i] = {at, sizes[i]};
      at += (sizes[i] + 7) / 8 * 8;
    }

    SectionWriter out(sink);
    RETURN_IF_ERROR(out.Bytes({reinterpret_cast<const char*>(&header), sizeof header}));
    RETURN_IF_ERROR(out.Values(layout_.planes));
    RETURN_IF_ERROR(out.Values(layout_.rows));
    RETURN_IF_ERROR(out.Values(layout_.tracks));
    RETURN_IF_ERROR(out.Values(layout_.levels));
    RETURN_IF_ERROR(ForTracks([&](TrackWriter& t) { return out.Values(t.blocks); }));
    RETURN_IF_ERROR(WriteLevels(out));
    RETURN_IF_ERROR(ForTracks([&](TrackWriter& t) { return out.Values(t.ranges); }));
    RETURN_IF_ERROR(ForTracks([&](TrackWriter& t) { return out.Values(t.values); }));
    RETURN_IF_ERROR(out.Values(outs_.blocks));
    RETURN_IF_ERROR(out.Values(ins_.blocks));
    RETURN_IF_ERROR(out.Values(text_ends));
    RETURN_IF_ERROR(out.Values(text_counts_));
    RETURN_IF_ERROR(out.Texts(texts_.all()));
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
  const EventBytes trace_bytes_{trace_, 0};
  std::string derived_;
  std::vector<std::size_t> derived_from_;  // See DeriveLines.
  xplane::Space derived_space_;
  EventBytes derived_bytes_;
  std::unique_ptr<Spill> spill_;  // Null if everything is in memory.
  Texts texts_;
  std::vector<std::unique_ptr<NameIds>> names_;
  // Buffers for a line's events, one per thread, that are used again. Allocating that much memory
  // for each line would cost as much as reading the line. Guarded by mutex_ while lines are read.
  std::vector<std::vector<xplane::Placed>> spare_;
  Mutex mutex_;
  std::deque<LineWork> lines_;
  Layout layout_;
  std::vector<std::uint64_t> text_counts_;
  LinkLists outs_, ins_;
};

constexpr std::size_t kPiece = 4096;  // What is read of a trace at a time to identify it.

// A hash of some pieces of a trace.
class Marker {
 public:
  void Mix(std::string_view piece) {
    for (; !piece.empty(); piece.remove_prefix(std::min<std::size_t>(8, piece.size()))) {
      std::uint64_t word = 0;
      std::memcpy(&word, piece.data(), std::min<std::size_t>(8, piece.size()));
      mark_ = (mark_ ^ word) * 0x9e3779b97f4a7c15;
      mark_ ^= mark_ >> 29;
    }
  }
  std::uint64_t mark() const { return mark_; }

 private:
  std::uint64_t mark_ = 0xcbf29ce484222325;
};

}  // namespace

absl::Status BuildIndex(std::string_view trace, const xplane::Space& space,
                        const BuildOptions& options, const Sink& sink) {
  const absl::Status built = Builder(trace, space, options).Run(sink);
  // Checked first, because a file that was changed while it was read looks damaged.
  if (options.check) RETURN_IF_ERROR(options.check());
  return built;
}

Source SourceOf(std::string_view trace) {
  constexpr std::size_t kPieces = 64;
  Marker marker;
  if (trace.size() <= kPieces * kPiece) {
    marker.Mix(trace);
  } else {
    for (std::size_t i = 0; i < kPieces; ++i)
      marker.Mix(trace.substr((trace.size() - kPiece) / (kPieces - 1) * i, kPiece));
  }
  return {trace.size(), marker.mark()};
}

Source SourceOf(std::string_view trace, std::string_view identity) {
  if (identity.empty()) return SourceOf(trace);
  Marker marker;
  marker.Mix(identity);
  marker.Mix(trace.substr(0, kPiece));
  marker.Mix(trace.substr(trace.size() - std::min(kPiece, trace.size())));
  return {trace.size(), marker.mark()};
}

}  // namespace strobe::index
