#include "operator/admission/annotation_values.h"

#include <gmock/gmock.h>

namespace strobe::admission {
namespace {

TEST(AnnotationValues, Ports) {
  for (const char* good : {"1", "9470", "65535"}) EXPECT_TRUE(IsPort(good)) << good;
  for (const char* bad : {"", "0", "-1", "65536", "80a", " 80", "1e3"})
    EXPECT_FALSE(IsPort(bad)) << bad;
  EXPECT_TRUE(IsPorts("1,2,3"));
  for (const char* bad : {"", ",", "1,", "1,,2", "1 2"}) EXPECT_FALSE(IsPorts(bad)) << bad;
}

TEST(AnnotationValues, BytesAreAQuantity) {
  for (const char* good : {"1", "4096", "2Gi", "1.5G", "1e9"}) EXPECT_TRUE(IsBytes(good)) << good;
  for (const char* bad : {"", "0", "0Gi", "Mi", "2GiB", "8g", "1 Gi", "10Ab"})
    EXPECT_FALSE(IsBytes(bad)) << bad;
}

TEST(AnnotationValues, TrainerChangesAreNamesOrNone) {
  for (const char* good : {"none", "keep-cupti", "agent,server,torch-results"})
    EXPECT_TRUE(IsTrainerChangeList(good)) << good;
  for (const char* bad : {",", "server,", "server, agent", "server,none", "all", "SERVER"})
    EXPECT_FALSE(IsTrainerChangeList(bad)) << bad;
}

TEST(AnnotationValues, UsersOtherThanRoot) {
  for (const char* good : {"1", "1000", "1000:100", "2147483647"})
    EXPECT_TRUE(IsUser(good)) << good;
  for (const char* bad : {"", "0", "1000:0", "-1", "2147483648", "1000:", ":1", "1:2:3", "nobody"})
    EXPECT_FALSE(IsUser(bad)) << bad;
}

TEST(AnnotationValues, UploadRatesAreAMegabyteOrMore) {
  for (const char* good : {"1MB", "100MiB", "2g", "1tb", "9999999T"})
    EXPECT_TRUE(IsUploadRate(good)) << good;
  for (const char* bad : {"", "0MB", "1", "999KB", "100m b", "1.5GB", "1PB", "1Mib2", "99999999T"})
    EXPECT_FALSE(IsUploadRate(bad)) << bad;
}

TEST(AnnotationValues, LookingBackTakesADuration) {
  for (const char* good : {"10s", "1m30s", "10m", "0"}) EXPECT_TRUE(IsLookBack(good)) << good;
  for (const char* bad : {"", "10", "11m", ";", "10 s", "1h"}) EXPECT_FALSE(IsLookBack(bad)) << bad;
}

TEST(AnnotationValues, CollectivesAreCallsOrTimes) {
  EXPECT_TRUE(IsCollectives("calls"));
  EXPECT_TRUE(IsCollectives("times"));
  for (const char* bad : {"", "true", "Calls", "calls,times"})
    EXPECT_FALSE(IsCollectives(bad)) << bad;
}

TEST(AnnotationValues, KinetoRecordsForSomeTime) {
  for (const char* good : {"1ms", "2s", "10m"}) EXPECT_TRUE(IsKinetoDuration(good)) << good;
  for (const char* bad : {"", "0", "999us", "11m", "2", "-1s"})
    EXPECT_FALSE(IsKinetoDuration(bad)) << bad;
}

TEST(AnnotationValues, ResourcesThatAContainerCanStartWith) {
  EXPECT_TRUE(IsCpu("1m"));
  EXPECT_FALSE(IsCpu("0.1m"));
  for (const char* good : {"32Mi", "1Gi", "100000000"}) EXPECT_TRUE(IsSidecarMemory(good)) << good;
  for (const char* bad : {"", "1", "31Mi", "512m", "lots"})
    EXPECT_FALSE(IsSidecarMemory(bad)) << bad;
}

}  // namespace
}  // namespace strobe::admission
