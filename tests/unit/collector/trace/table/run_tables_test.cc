#include "collector/trace/table/run_tables.h"

#include <gmock/gmock.h>

#include <map>

#include "collector/trace/table/event_table.h"
#include "collector/trace/table/parquet_file.h"
#include "collector/trace/xplane/builder.h"
#include "common/base/strings.h"
#include "tests/unit/collector/colliding_names.h"

namespace strobe::table {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;

constexpr std::string_view kMagic = "PAR1";

// Files in memory, some of which cannot be opened or written.
struct Disk {
  std::map<std::string, std::string> files{};
  std::string refuses_to_open{};
  std::size_t room = 1 << 20;

  class File : public Output {
   public:
    File(Disk& disk, std::string name) : disk_(disk), name_(std::move(name)) {}
    absl::Status Write(std::string_view piece) override {
      if (content_.size() + piece.size() > disk_.room) return absl::DataLossError("no room");
      content_ += piece;
      return absl::OkStatus();
    }
    absl::Status Finish() override {
      disk_.files[name_] = content_;
      return absl::OkStatus();
    }

   private:
    Disk& disk_;
    const std::string name_;
    std::string content_;
  };

  OpenOutput Opener() {
    return [this](std::string_view table,
                  std::string_view worker) -> absl::StatusOr<std::unique_ptr<Output>> {
      if (table == refuses_to_open) return absl::PermissionDeniedError("denied");
      return std::make_unique<File>(*this, StrCat(table, "/", worker));
    };
  }
};

std::string OneEvent() {
  xplane::PlaneBuilder plane("/host:CPU");
  plane.BeginLine(1, "main", 1);
  plane.AddEvent(plane.EventId("step"), 5000, 7);
  plane.AddEventStat(plane.StatId("n"), std::int64_t{3});
  return plane.Encode();
}

convert::AlignedTraces Traces(const std::string& bytes) {
  convert::AlignedTraces traces;
  traces.workers.push_back({.worker = "w", .space = *xplane::Space::Read(bytes)});
  return traces;
}

TEST(RunTables, EachTableIsAFileOfItsOwn) {
  const std::string bytes = OneEvent();
  Disk disk;
  ASSERT_TRUE(WriteRunTables(Traces(bytes), {}, disk.Opener()).ok());
  EXPECT_THAT(disk.files, ElementsAre(Key("collectives/w"), Key("events/w"), Key("stats/w"),
                                      Key("steps/w"), Key("workers/")));
  for (const auto& [name, content] : disk.files) {
    EXPECT_TRUE(content.starts_with(kMagic) && content.ends_with(kMagic)) << name;
  }
  Disk other;
  ASSERT_TRUE(WriteRunTables(Traces(bytes), {.stats = false}, other.Opener()).ok());
  EXPECT_THAT(other.files,
              ElementsAre(Key("collectives/w"), Key("events/w"), Key("steps/w"), Key("workers/")));
  EXPECT_EQ(other.files["events/w"], disk.files["events/w"]) << "the same input, the same bytes";
}

TEST(RunTables, IdsThatAreChosenToCollideAreWritten) {
  const std::string bytes = CollidingNames();
  Disk disk{.room = 64 << 20};
  ASSERT_TRUE(WriteRunTables(Traces(bytes), {.stats = false}, disk.Opener()).ok());
  EXPECT_GT(disk.files["events/w"].size(), static_cast<std::size_t>(kCollidingIds));
}

TEST(RunTables, TheOutputsOwnErrorIsTold) {
  const std::string bytes = OneEvent();
  for (const char* table : {"events", "stats", "steps", "collectives", "workers"}) {
    Disk disk{.refuses_to_open = table};
    EXPECT_EQ(WriteRunTables(Traces(bytes), {}, disk.Opener()).message(), "denied") << table;
  }
  Disk whole;
  ASSERT_TRUE(WriteRunTables(Traces(bytes), {}, whole.Opener()).ok());
  for (std::size_t room = 0; room < whole.files["events/w"].size(); room += 13) {
    Disk disk{.room = room};
    EXPECT_EQ(WriteRunTables(Traces(bytes), {}, disk.Opener()).message(), "no room") << room;
    EXPECT_FALSE(disk.files.contains("events/w")) << room;
  }
}

TEST(RunTables, DigestsAreToldToWhoeverAsks) {
  const std::string bytes = OneEvent();
  std::vector<std::string> told;
  Disk asked, other;
  const auto tell = [&](const digest::Digest& digest) {
    told.push_back(StrCat(digest.worker, " ", digest.events));
  };
  ASSERT_TRUE(WriteRunTables(Traces(bytes), {.digested = tell}, asked.Opener()).ok());
  EXPECT_THAT(told, ElementsAre("w 1"));
  ASSERT_TRUE(WriteRunTables(Traces(bytes), {}, other.Opener()).ok());
  EXPECT_EQ(asked.files, other.files) << "a trace without collectives needs no digest";
}

TEST(RunTables, ADamagedTraceIsDataLoss) {
  // The event's length says more than the line has.
  convert::AlignedTraces traces = Traces(OneEvent());
  const std::string bytes("\x22\x7f\x08", 3);
  traces.workers[0].space = {};
  xplane::Plane plane;
  plane.lines.push_back({.events = 1, .bytes = bytes});
  traces.workers[0].space.planes.push_back(plane);
  Disk disk;
  EXPECT_TRUE(absl::IsDataLoss(WriteRunTables(traces, {}, disk.Opener())));
  EXPECT_TRUE(disk.files.empty());
}

TEST(ParquetFile, ASchemaThatIsNoneIsAnError) {
  const auto file =
      ParquetFile::Create("nonsense", [](std::string_view) { return absl::OkStatus(); });
  EXPECT_THAT(std::string(file.status().message()), HasSubstr("cannot write a Parquet file"));
}

TEST(ParquetFile, ColumnsThatTheSchemaDoesNotHaveAreAnError) {
  const auto file = ParquetFile::Create("message t { required int64 a; }",
                                        [](std::string_view) { return absl::OkStatus(); });
  ASSERT_TRUE(file.ok()) << file.status();
  const std::int64_t values[] = {1, 2};
  const Column column{.integers = values};
  const Column two[] = {column, column};
  EXPECT_FALSE((*file)->Write(two, 2).ok()) << "more columns than the schema has";
}

TEST(TextColumn, ATextIsKeptOnce) {
  TextColumn column;
  for (const char* text : {"a", "b", "a"}) column.Add(text);
  EXPECT_THAT(column.column().dictionary, ElementsAre("a", "b"));
  EXPECT_THAT(column.column().texts, ElementsAre(0, 1, 0));
  column.Clear();
  EXPECT_TRUE(column.column().dictionary.empty() && column.column().texts.empty());
}

}  // namespace
}  // namespace strobe::table
