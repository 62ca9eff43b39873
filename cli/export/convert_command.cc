#include <filesystem>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>

#include "cli/base/common_flags.h"
#include "cli/base/open_location.h"
#include "cli/base/open_traces.h"
#include "cli/base/output_file.h"
#include "cli/base/report_table.h"
#include "cli/base/stats_json.h"
#include "cli/base/trace_commands.h"
#include "cli/export/table_files.h"
#include "collector/trace/analysis/event_stats.h"
#include "collector/trace/convert/align.h"
#include "collector/trace/convert/chrome_trace.h"
#include "collector/trace/convert/perfetto_trace.h"
#include "collector/trace/index/build.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/json.h"

namespace strobe::cli {
namespace {

using convert::AlignedTraces;
using convert::OpenTrace;
using Json = nlohmann::ordered_json;
using convert::Sink;
using convert::WorkerTrace;

// A CSV field within quotes. Quotes in the text are doubled.
std::string CsvText(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out.push_back('"');
    out.push_back(c);
  }
  return out + "\"";
}

absl::Status WriteStats(const std::vector<WorkerTrace>& traces, const Sink& sink) {
  RETURN_IF_ERROR(sink("worker,plane,event,count,total_ps,self_ps,min_ps,max_ps\n"));
  for (const WorkerTrace& trace : traces) {
    for (const xplane::Plane& plane : trace.space.planes) {
      ASSIGN_OR_RETURN(const analysis::PlaneStats stats, analysis::ComputeStats(plane));
      std::string rows;
      for (const analysis::EventStats& kind : stats.kinds) {
        rows += StrCat(CsvText(trace.worker), ",", CsvText(plane.name), ",", CsvText(kind.name),
                       ",", kind.count, ",", kind.total_ps, ",", kind.self_ps, ",", kind.min_ps,
                       ",", kind.max_ps, "\n");
      }
      RETURN_IF_ERROR(sink(rows));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteStatsJson(const AlignedTraces& traces, const Sink& sink) {
  Json workers = Json::array();
  for (const WorkerTrace& trace : traces.workers) {
    Json planes = Json::array();
    for (const xplane::Plane& plane : trace.space.planes) {
      ASSIGN_OR_RETURN(const analysis::PlaneStats stats, analysis::ComputeStats(plane));
      planes.push_back(StatsToJson(stats));
    }
    workers.push_back({{"worker", trace.worker}, {"planes", std::move(planes)}});
  }
  for (const convert::LeftOut& worker : traces.left_out)
    workers.push_back(
        {{"worker", worker.worker}, {"planes", Json::array()}, {"problem", worker.why}});
  return sink(JsonText(workers, 2) + "\n");
}

bool WantsJson(std::string_view out) { return out.ends_with(".json") || out.ends_with(".json.gz"); }

absl::Status WriteIndex(const ConvertFlags& flags, const std::vector<OpenTrace>& opened,
                        const AlignedTraces& traces, const Sink& sink) {
  if (opened.size() != 1)
    return absl::InvalidArgumentError(
        StrCat("an index can be made from only one trace, but the run has ", opened.size(),
               "; give one .xplane.pb file (strobe view makes those of a whole run)"));
  return index::BuildIndex(
      opened[0].bytes(), traces.workers[0].space,
      {.threads = std::thread::hardware_concurrency(),
       .spill_directory =
           flags.out == "-" ? "" : std::filesystem::absolute(flags.out).parent_path().string(),
       .check = [&] { return opened[0].Check(); }},
      sink);
}

absl::Status Write(const ConvertFlags& flags, const std::vector<OpenTrace>& opened,
                   const AlignedTraces& traces, const Sink& sink) {
  if (flags.to == "index") return WriteIndex(flags, opened, traces, sink);
  // A single JSON trace is written as the XSpace that opening it has made.
  if (flags.to == "xplane" && opened.size() == 1 &&
      std::filesystem::is_regular_file(flags.location) &&
      std::holds_alternative<std::unique_ptr<const std::string>>(opened[0].content))
    return sink(opened[0].bytes());
  if (flags.to == "xplane") return convert::WriteMergedSpace(traces, sink);
  if (flags.to == "perfetto") return convert::WritePerfettoTrace(traces.workers, sink);
  if (flags.to == "stats")
    return WantsJson(flags.out) ? WriteStatsJson(traces, sink) : WriteStats(traces.workers, sink);
  return convert::WriteChromeTrace(traces.workers, sink);
}

absl::Status WriteAsTables(const ConvertFlags& flags, const std::vector<OpenTrace>& opened,
                           const AlignedTraces& traces, std::uint64_t& written) {
  if (flags.out == "-")
    return absl::InvalidArgumentError("tables are several files; give a directory with --out");
  if (!traces.left_out.empty()) {
    return absl::DataLossError(
        StrCat("the trace of ", traces.left_out.front().worker,
               " is damaged, and tables without it would look like those of a smaller run; to "
               "make them of the others, name their files"));
  }
  return WriteTableFiles(traces, opened.front().run, flags.out, {.stats = !flags.no_stats},
                         written);
}

absl::Status WriteOutFile(const ConvertFlags& flags, const std::vector<OpenTrace>& opened,
                          const AlignedTraces& traces, std::uint64_t& written) {
  ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file, OutputFile::Create(flags.out));
  const absl::Status status =
      Write(flags, opened, traces, [&](std::string_view piece) { return file->Write(piece); });
  RETURN_IF_ERROR(convert::Unchanged(opened, status));
  return file->Finish(written);
}

// OK also when the output cannot be written: main tells the user, unless a reader such as `head`
// has read enough.
absl::Status PrintTraces(const ConvertFlags& flags, const std::vector<OpenTrace>& opened,
                         const AlignedTraces& traces) {
  const absl::Status status = Write(flags, opened, traces, [](std::string_view piece) {
    std::cout.write(piece.data(), static_cast<std::streamsize>(piece.size()));
    return std::cout ? absl::OkStatus() : absl::CancelledError("the output cannot be written");
  });
  return std::cout ? status : absl::OkStatus();
}

// Writes the traces without those that are damaged, which it adds to `traces.left_out`.
absl::Status WriteWhole(const ConvertFlags& flags, const std::vector<OpenTrace>& opened,
                        AlignedTraces& traces, std::uint64_t& written) {
  if (flags.to == "parquet") return WriteAsTables(flags, opened, traces, written);
  const bool several = traces.workers.size() > 1;
  // What is printed cannot be taken back, and a merge copies events without reading them.
  const bool checked =
      several && (flags.out == "-" || OutputFile::IsDirect(flags.out) || flags.to == "xplane");
  if (checked) RETURN_IF_ERROR(convert::LeaveOutDamaged(traces).status());
  if (flags.out == "-") return PrintTraces(flags, opened, traces);
  const absl::Status status = WriteOutFile(flags, opened, traces, written);
  if (checked || !several || !absl::IsDataLoss(status)) return status;
  // Only now, because reading everything twice takes time.
  RETURN_IF_ERROR(convert::Unchanged(opened, absl::OkStatus()));
  ASSIGN_OR_RETURN(const std::size_t damaged, convert::LeaveOutDamaged(traces));
  return damaged == 0 ? status : WriteOutFile(flags, opened, traces, written);
}

// What the name of the file to write says that it is to be.
std::string FormatOf(std::string_view out) {
  if (out.ends_with(".gz")) out.remove_suffix(3);
  constexpr std::pair<std::string_view, const char*> kEndings[] = {
      {".pftrace", "perfetto"}, {".perfetto-trace", "perfetto"}, {".csv", "stats"},
      {".index", "index"},      {".xplane.pb", "xplane"},
  };
  for (const auto& [ending, format] : kEndings) {
    if (out.ends_with(ending)) return format;
  }
  return "chrome";
}

absl::Status Convert(const ConvertFlags& flags, std::uint64_t& written) {
  ASSIGN_OR_RETURN(const std::vector<OpenTrace> opened,
                   OpenTraces(flags.location, flags.storage_config));
  absl::StatusOr<AlignedTraces> traces = convert::AlignTraces(opened);
  RETURN_IF_ERROR(convert::Unchanged(opened, traces.status()));
  const absl::Status status = WriteWhole(flags, opened, *traces, written);
  Warn(traces->left_out);
  return convert::Unchanged(opened, status);
}

// What convert and merge have in common. `about` comes before the exit codes.
void AddSharedFlags(CLI::App& command, ConvertFlags& flags, const std::string& about) {
  command.add_flag("--quiet", flags.quiet, "do not print the size at the end");
  AddStorageConfigFlag(command, flags.storage_config);
  command.footer(about +
                 "Exit code: 0 written, 1 the traces cannot be read or the file cannot be written, "
                 "2 a flag is wrong.");
}

}  // namespace

void AddConvertFlags(CLI::App& command, ConvertFlags& flags) {
  AddPlaceArgument(command, flags.location);
  command
      .add_option(
          "--to", flags.to,
          "chrome: JSON for chrome://tracing, Perfetto and speedscope; perfetto: its own format, "
          "smaller and faster; stats: count and times of each kind of event, as CSV or .json; "
          "index: opens one trace at once in strobe view; parquet: tables for SQL engines; "
          "xplane: one trace of all workers for XProf, also from a .json file [by the ending of "
          "--out, else chrome]")
      ->check(CLI::IsMember({"chrome", "perfetto", "stats", "index", "parquet", "xplane"}));
  command
      .add_option(
          "-o,--out", flags.out,
          "the file to write, compressed if it ends in .gz; - = standard output; for parquet a "
          "folder, which may have other runs")
      ->type_name("FILE")
      ->required();
  command.add_flag("--no-stats", flags.no_stats,
                   "for parquet: leave out the events' stats, the largest table");
  AddSharedFlags(
      command, flags,
      "All workers of a run are put on one clock, by the measured offsets.\n"
      "Examples:\n"
      "  strobe convert /nfs/logs --to perfetto -o run.pftrace      # open in ui.perfetto.dev\n"
      "  strobe convert worker-0.xplane.pb --to chrome -o trace.json.gz\n"
      "  strobe convert rank0.pt.trace.json --to xplane -o rank0.xplane.pb   # PyTorch, for XProf\n"
      "  strobe convert gs://bucket/logs/plugins/profile/RUN --to stats -o - | head\n"
      "  strobe convert /nfs/logs --to parquet -o tables   # then: duckdb, polars, Spark\n");
}

void AddMergeFlags(CLI::App& command, ConvertFlags& flags) {
  flags.to = "xplane";
  command.add_option("place", flags.location, "a run, or a logdir (then its newest run)")
      ->required();
  command
      .add_option("-o,--out", flags.out,
                  "the .xplane.pb file to write; XProf finds it in "
                  "<folder>/plugins/profile/<run>/")
      ->type_name("FILE")
      ->required();
  AddSharedFlags(command, flags,
                 "The name of each plane ends with the name of its worker.\n"
                 "Example:\n"
                 "  strobe merge gs://bucket/logs -o all.xplane.pb\n");
}

int RunConvert(const ConvertFlags& given) {
  ConvertFlags flags = given;
  if (flags.to.empty()) flags.to = FormatOf(flags.out);
  std::uint64_t written = 0;
  if (const absl::Status status = Convert(flags, written); !status.ok()) return Complain(status);
  if (!flags.quiet && flags.out != "-")
    std::cerr << "wrote " << flags.out << ", " << FormatBytes(written) << "\n";
  return kExitOk;
}

}  // namespace strobe::cli
