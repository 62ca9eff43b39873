#include "agent/wire/ring_reader.h"

#include <gmock/gmock.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "agent/wire/device_records.h"
#include "agent/wire/ring_writer.h"

namespace strobe::wire {
namespace {

constexpr std::uint64_t kWords = 4 * kBlockWords;

struct Ring {
  explicit Ring(std::uint64_t words = kWords) : data(words) {}
  RingWriter Writer() { return RingWriter(&header, data.data(), data.size()); }
  RingReader Reader() { return RingReader(&header, data.data(), data.size()); }

  RingHeader header{};
  std::vector<std::atomic<std::uint64_t>> data;
  RecordBuffer buffer{};
};

// A text whose length and letters are derived from the number, so that the reader can verify it.
std::string TextOf(std::uint64_t number) {
  return std::string(number % 40, static_cast<char>('a' + number % 26));
}

void ExpectRecord(const ScopeRecord& record, std::uint64_t number) {
  EXPECT_EQ(record.begin, number * 10);
  EXPECT_EQ(record.end, number * 10 + 5);
  EXPECT_EQ(record.text, TextOf(number));
  EXPECT_EQ(record.level, 1 + number % 3);
}

void Write(RingWriter& writer, std::uint64_t number) {
  writer.Scope(static_cast<std::uint8_t>(1 + number % 3), number * 10, number * 10 + 5,
               TextOf(number));
}

TEST(Ring, HandsOverEveryRecordInOrder) {
  Ring ring;
  RingReader reader = ring.Reader();
  RingWriter writer = ring.Writer();
  std::uint64_t next = 0;
  for (std::uint64_t made = 0; made < 20'000;) {
    for (int i = 0; i < 50; ++i) Write(writer, made++);
    reader.Drain(ring.buffer, [&](const ScopeRecord& record) { ExpectRecord(record, next++); });
  }
  EXPECT_EQ(next, 20'000u);
  EXPECT_EQ(reader.lost(), 0u);
  EXPECT_EQ(reader.unseen(), 0u);
}

TEST(Ring, CountsWhatWasOverwritten) {
  Ring ring;
  RingReader reader = ring.Reader();
  RingWriter writer = ring.Writer();
  std::uint64_t read = 0, made = 0, last = 0;
  for (const int burst : {10, 5000, 3, 100'000, 1}) {
    for (int i = 0; i < burst; ++i) Write(writer, made++);
    reader.Drain(ring.buffer, [&](const ScopeRecord& record) {
      ExpectRecord(record, record.begin / 10);
      EXPECT_GE(record.begin / 10, last) << "never twice, never back";
      last = record.begin / 10 + 1;
      ++read;
    });
    EXPECT_EQ(read + reader.lost(), made);
  }
  EXPECT_GT(reader.lost(), 0u);
  EXPECT_EQ(last, made) << "the newest are there";
}

TEST(Ring, AReaderThatComesLaterBeginsNowOrAtTheOldest) {
  Ring ring;
  RingWriter writer = ring.Writer();
  for (std::uint64_t i = 0; i < 10'000; ++i) Write(writer, i);
  RingReader now = ring.Reader();
  Write(writer, 10'000);
  EXPECT_EQ(now.Drain(ring.buffer, [](const ScopeRecord& record) { ExpectRecord(record, 10'000); }),
            1u);
  EXPECT_EQ(now.lost(), 0u);
  RingReader oldest = ring.Reader();
  oldest.SkipToOldest();
  std::vector<std::uint64_t> seen;
  oldest.Drain(ring.buffer, [&](const ScopeRecord& record) { seen.push_back(record.begin / 10); });
  ASSERT_GT(seen.size(), 100u) << "most of the ring";
  EXPECT_EQ(seen.back(), 10'000u);
  EXPECT_EQ(seen.back() - seen.front() + 1, seen.size());
  EXPECT_EQ(oldest.lost(), 0u);
}

TEST(Ring, AReaderThatWantsAllKnowsWhatItMissed) {
  Ring ring;
  RingWriter writer = ring.Writer();
  for (std::uint64_t i = 0; i < 10'000; ++i) Write(writer, i);
  RingReader reader = ring.Reader();
  reader.SkipToStart();
  const std::uint64_t read = reader.Drain(ring.buffer, [](const ScopeRecord&) {});
  EXPECT_GT(read, 100u);
  EXPECT_EQ(read + reader.lost(), 10'000u);
}

TEST(Ring, AWriterGoesOnWhereAnotherStopped) {
  Ring ring;
  RingReader reader = ring.Reader();
  for (std::uint64_t i = 0; i < 100; ++i) {
    RingWriter writer = ring.Writer();
    Write(writer, i);
  }
  EXPECT_EQ(reader.Drain(ring.buffer, [](const ScopeRecord&) {}), 100u);
}

TEST(Ring, TellsWhoseRecordsTheyAre) {
  Ring ring;
  RingReader reader = ring.Reader();
  std::vector<std::uint32_t> owners;
  for (const std::uint32_t id : {7u, 8u}) {
    RingWriter writer = ring.Writer();
    const char names[2][kThreadNameBytes] = {"first", "second"};
    writer.Thread(id, names[id - 7]);
    Write(writer, id);
  }
  reader.Drain(ring.buffer, [&](const ScopeRecord&) { owners.push_back(reader.thread().id); });
  EXPECT_THAT(owners, testing::ElementsAre(7u, 8u));
  EXPECT_STREQ(reader.thread().name.data(), "second");
  EXPECT_EQ(ring.Reader().thread().id, 8u) << "also for whoever comes later";
  EXPECT_EQ(reader.lost(), 0u);
}

std::vector<std::string> TextsOf(Ring& ring, RingReader& reader) {
  std::vector<std::string> texts;
  reader.Drain(ring.buffer, [&](const ScopeRecord& record) { texts.emplace_back(record.text); });
  return texts;
}

// A text in which every byte depends on its place.
std::string LongText(std::size_t size) {
  std::string text(size, ' ');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i * 7 / 5 % 26);
  return text;
}

TEST(Ring, KeepsTextsOfAnyLengthUpToTheLimit) {
  Ring ring(32 * kBlockWords);  // A quarter of it are 32 KiB.
  RingReader reader = ring.Reader();
  RingWriter writer = ring.Writer();
  for (const std::size_t size :
       {kMaxTextBytes - 1, kMaxTextBytes, kMaxTextBytes + 1, kMaxPartBytes, kMaxPartBytes + 1,
        2 * kMaxPartBytes, 3 * kMaxPartBytes + kMaxTextBytes, std::size_t{32} << 10}) {
    const std::string text = LongText(size);
    writer.Scope(2, 1, 2, text);
    writer.Scope(1, 3, 4, "next");
    EXPECT_THAT(TextsOf(ring, reader), testing::ElementsAre(text, "next")) << size;
  }
  EXPECT_EQ(reader.lost(), 0u);
  EXPECT_EQ(reader.cut(), 0u);
}

TEST(Ring, CutsTheMetadataOfATextThatIsTooLongAndCountsIt) {
  Ring ring;  // A quarter of it are 4 KiB.
  RingReader reader = ring.Reader();
  RingWriter writer = ring.Writer();
  std::string characters;
  while (characters.size() < 5000) characters += "\xe2\x82\xac";  // The euro sign.
  std::vector<std::string> texts;
  for (const std::string& text : {"name#first=1,text=" + std::string(100'000, 'x') + ",last=2#",
                                  std::string(100'000, 'n'), characters}) {
    writer.Scope(1, 1, 2, text);
    for (std::string& read : TextsOf(ring, reader)) texts.push_back(std::move(read));
  }
  ASSERT_EQ(texts.size(), 3u);
  EXPECT_THAT(texts[0], testing::AllOf(testing::StartsWith("name#first=1,text=xxx"),
                                       testing::EndsWith("xxx...#"), testing::SizeIs(4096)));
  EXPECT_THAT(texts[1], testing::AllOf(testing::EndsWith("nnn..."), testing::SizeIs(4096)));
  EXPECT_EQ((texts[2].size() - 3) % 3, 0u) << "cut between characters";
  EXPECT_EQ(reader.cut(), 3u);
}

TEST(Ring, NamesThatAreCutStayDifferent) {
  Ring ring;
  RingReader reader = ring.Reader();
  RingWriter writer = ring.Writer();
  const std::string name = LongText(kMaxTextBytes);
  writer.Text(1, name);
  writer.Text(2, name + "Ee");
  writer.Text(3, name + "Ei");
  std::vector<std::string> names;
  reader.DrainRecords(
      ring.buffer, [&](RecordType, std::uint8_t, std::span<const std::uint64_t> payload) {
        names.emplace_back(reinterpret_cast<const char*>(payload.data() + 1), payload[0] >> 32);
      });
  ASSERT_EQ(names.size(), 3u);
  EXPECT_EQ(names[0], name);
  EXPECT_NE(names[1], names[2]);
  for (const std::string& cut : {names[1], names[2]}) {
    EXPECT_THAT(cut, testing::SizeIs(kMaxTextBytes));
    EXPECT_THAT(cut, testing::StartsWith(name.substr(0, kMaxTextBytes - kCutEndBytes) + "..."));
    EXPECT_TRUE(IsCut(cut, kMaxTextBytes));
  }
  EXPECT_FALSE(IsCut(name, kMaxTextBytes));
}

TEST(Ring, ALongTextOfWhichPartsWereOverwrittenIsLost) {
  Ring ring;
  RingReader reader = ring.Reader();
  RingWriter writer = ring.Writer();
  std::uint64_t made = 0, read = 0;
  for (int round = 0; round < 200; ++round) {
    // More than the ring holds, so that the oldest text is usually overwritten in part.
    for (int i = 0; i < 5 + round % 3; ++i, ++made) writer.Scope(1, 1, 2, LongText(3500 + i * 80));
    for (const std::string& text : TextsOf(ring, reader)) {
      EXPECT_TRUE(text == LongText(text.size())) << text.size();
      ++read;
    }
  }
  EXPECT_EQ(read + reader.lost() + reader.unseen(), made);
  EXPECT_GT(read, 100u);
}

TEST(Ring, ForgedPartsDoNoHarm) {
  Ring ring;
  RingReader reader = ring.Reader();
  RingWriter writer = ring.Writer();
  writer.Scope(1, 1, 2, LongText(3000));
  // The scope announces more bytes in its parts than there are, and a part more than it has.
  for (std::size_t i = 0; i < 600; ++i) {
    const auto head = std::bit_cast<RecordHead>(ring.data[i].load());
    if (head.type == RecordType::kScope) ring.data[i + 3] = 0xffff'ffffull << 32 | 10;
    if (head.type == RecordType::kPart) ring.data[i + 1] = ~0ull;
    i += std::max<std::size_t>(head.words, 1) - 1;
  }
  EXPECT_THAT(TextsOf(ring, reader), testing::IsEmpty());
  EXPECT_EQ(reader.lost(), 1u);
  writer.Scope(1, 1, 2, "next");
  EXPECT_THAT(TextsOf(ring, reader), testing::ElementsAre("next"));
}

TEST(Ring, NothingIsLostOrTornBetweenTwoThreads) {
  Ring ring;
  RingReader reader = ring.Reader();
  constexpr std::uint64_t kMade = 300'000;
  std::atomic<bool> done{false};
  std::thread producer([&] {
    RingWriter writer = ring.Writer();
    for (std::uint64_t i = 0; i < kMade; ++i) Write(writer, i);
    done = true;
  });
  std::uint64_t read = 0;
  const auto check = [&](const ScopeRecord& record) {
    ExpectRecord(record, record.begin / 10);
    ++read;
  };
  while (!done) reader.Drain(ring.buffer, check);
  producer.join();
  reader.Drain(ring.buffer, check);
  EXPECT_EQ(read + reader.lost(), kMade);
  EXPECT_EQ(reader.unseen(), 0u);
}

TEST(Ring, RubbishNeverLeadsOutOfTheRing) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    Ring ring;
    for (auto& word : ring.data) word = random();
    ring.header.head = random() % (3 * kWords);
    ring.header.claimed = ring.header.head.load();
    ring.header.made = random();
    RingReader reader = ring.Reader();
    reader.SkipToOldest();
    std::size_t bytes = 0;
    reader.Drain(ring.buffer, [&](const ScopeRecord& record) {
      for (const char c : record.text) bytes += static_cast<unsigned char>(c);
    });
    ring.header.head = ~0ull;
    ring.header.claimed = ~0ull;
    // With a head far beyond the ring, every record in it counts as overwritten.
    RingReader(&ring.header, ring.data.data(), kWords).Drain(ring.buffer, [](const ScopeRecord&) {
    });
  }
}

// A reader that trusted these positions would practically never return.
TEST(Ring, ForgedPositionsEndADrainAndAreTold) {
  struct Forged {
    std::uint64_t head, claimed;
  };
  for (const auto& [head, claimed] :
       {Forged{~0ull, ~0ull}, Forged{1ull << 63, ~0ull}, Forged{~0ull - kWords, 5},
        Forged{kMaxPosition + 1, 0}, Forged{100'000, 10}, Forged{0, ~0ull}}) {
    Ring ring;
    RingReader reader = ring.Reader();
    ring.header.head = head;
    ring.header.claimed = claimed;
    reader.Drain(ring.buffer, [](const ScopeRecord&) {});
    EXPECT_EQ(reader.damaged(), head != 0) << head;
    RingReader oldest = ring.Reader();
    oldest.SkipToOldest();
    oldest.Drain(ring.buffer, [](const ScopeRecord&) {});
  }
}

// Regression: the reader returned no record and reported no loss.
TEST(Ring, PositionsThatWereForgedWhenAReaderBeganAreTold) {
  for (const bool number : {false, true}) {
    Ring ring;
    RingWriter writer = ring.Writer();
    Write(writer, 0);
    (number ? ring.header.made : ring.header.head) = 1ull << 40;
    if (!number) ring.header.claimed = 1ull << 40;
    RingReader reader = ring.Reader();
    Write(writer, 1);  // The writer keeps its own position.
    reader.Drain(ring.buffer, [](const ScopeRecord&) {});
    EXPECT_TRUE(reader.damaged()) << number;
  }
}

TEST(Ring, AWriterThatForgesAllTheTimeCannotHoldADrain) {
  Ring ring;
  std::atomic<bool> stop{false};
  std::thread forger([&] {
    std::mt19937_64 random(1);
    while (!stop) {
      ring.header.claimed = random() >> random() % 64;
      ring.header.head = random() >> random() % 64;
      ring.data[random() % kWords] = random();
    }
  });
  for (int i = 0; i < 2000; ++i) {
    RingReader reader = ring.Reader();
    reader.Drain(ring.buffer, [](const ScopeRecord&) {});
  }
  stop = true;
  forger.join();
}

TEST(Ring, AWriterKnowsWhenItsSpaceIsShort) {
  Ring ring(2 * kReserveWords);
  RingWriter writer = ring.Writer();
  EXPECT_FALSE(writer.SpaceIsShort());
  writer.SpaceReserved(kReserveWords);
  std::uint64_t made = 0;
  for (; !writer.SpaceIsShort(); ++made) writer.Scope(1, 1, 2, std::string(made % 2000, 'x'));
  EXPECT_LE(ring.header.head.load(), kReserveWords);
  EXPECT_GT(made, 10u);
  // The largest text that is said to fit does fit.
  Ring other(2 * kReserveWords);
  RingWriter large = other.Writer();
  large.SpaceReserved(kReserveWords);
  while (!large.SpaceIsShort(10'000)) large.Scope(1, 1, 2, LongText(10'000));
  EXPECT_LE(other.header.head.load(), kReserveWords);
  writer.SpaceReserved(2 * kReserveWords);
  for (int i = 0; i < 10'000; ++i) writer.Scope(1, 1, 2, "all the space there is");
  EXPECT_FALSE(writer.SpaceIsShort());
}

TEST(Ring, CarriesRecordsOfAllKinds) {
  Ring ring;
  RingReader reader = ring.Reader();
  RingWriter writer = ring.Writer();
  writer.Text(7, "a_kernel");
  writer.Record(RecordType::kKernel, KernelRecord{.begin = 5, .end = 9, .name = 7});
  writer.Record(RecordType::kClock, ClockRecord{.device_ns = 1, .ticks = 2});
  std::vector<RecordType> types;
  reader.DrainRecords(
      ring.buffer, [&](RecordType type, std::uint8_t, std::span<const std::uint64_t> payload) {
        types.push_back(type);
        if (type == RecordType::kText) {
          EXPECT_EQ(payload[0], 8ull << 32 | 7);
          EXPECT_EQ(std::string(reinterpret_cast<const char*>(&payload[1]), 8), "a_kernel");
        }
        if (type == RecordType::kKernel) {
          ASSERT_EQ(payload.size(), kWordsOf<KernelRecord>);
          const auto kernel = FromWords<KernelRecord>(payload);
          EXPECT_EQ(kernel.end, 9u);
          EXPECT_EQ(kernel.name, 7u);
        }
      });
  EXPECT_THAT(types,
              testing::ElementsAre(RecordType::kText, RecordType::kKernel, RecordType::kClock));
  EXPECT_EQ(reader.unseen(), 0u);
}

TEST(Ring, IsReadFromAPositionOnIfItIsStillThere) {
  Ring ring;
  RingWriter writer = ring.Writer();
  writer.Scope(1, 1, 2, "before");
  const std::uint64_t from = writer.position();
  writer.Scope(1, 3, 4, "after");
  const auto read = [&](std::uint64_t position, bool overwritten) {
    RingReader reader = ring.Reader();
    EXPECT_EQ(reader.SkipToOldest(position), overwritten);
    std::vector<std::uint64_t> begins;
    reader.Drain(ring.buffer, [&](const ScopeRecord& record) { begins.push_back(record.begin); });
    EXPECT_EQ(reader.lost(), 0u);
    return begins;
  };
  EXPECT_THAT(read(from, false), testing::ElementsAre(3));
  EXPECT_THAT(read(0, false), testing::ElementsAre(1, 3));
  EXPECT_THAT(read(writer.position(), false), testing::IsEmpty());
  EXPECT_THAT(read(writer.position() + 1, true), testing::ElementsAre(1, 3)) << "a forged one";
  for (int i = 0; i < 10'000; ++i) writer.Scope(1, 5, 6, "newer");
  EXPECT_THAT(read(from, true), testing::Each(5));
}

TEST(Ring, CountsOnlyWhatHappened) {
  Ring ring;
  RingReader reader = ring.Reader();
  RingWriter writer = ring.Writer();
  constexpr std::uint64_t kMade = 1000;
  for (std::uint64_t i = 0; i < kMade; ++i) {
    writer.Text(static_cast<std::uint32_t>(i), "definitions have no number");
    writer.Record(RecordType::kKernel, KernelRecord{.begin = i});
  }
  std::uint64_t seen = 0;
  reader.DrainRecords(ring.buffer,
                      [&](RecordType type, std::uint8_t, std::span<const std::uint64_t>) {
                        if (type == RecordType::kKernel) ++seen;
                      });
  EXPECT_GT(seen, 0u);
  EXPECT_LT(seen, kMade);
  EXPECT_EQ(seen + reader.lost(), kMade);
}

}  // namespace
}  // namespace strobe::wire
