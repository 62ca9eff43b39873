#include "collector/store/store_options.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe::storage {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

std::string Nothing(const char*) { return ""; }

OptionMap Resolve(const std::string& logdir, const std::string& yaml = "",
                  const Environment& environment = Nothing, UrlOptions allowed = UrlOptions::kAll) {
  const auto config = ParseStorageConfig(yaml, "storage.yaml");
  EXPECT_TRUE(config.ok()) << config.status();
  const auto options = ResolveStoreOptions(*Logdir::Parse(logdir), *config, allowed, environment);
  EXPECT_TRUE(options.ok()) << options.status();
  return *options;
}

std::string Complaint(const std::string& logdir, UrlOptions allowed = UrlOptions::kAll) {
  return MessageOf(ResolveStoreOptions(*Logdir::Parse(logdir), {}, allowed, Nothing).status());
}

std::string FileComplaint(const std::string& yaml) {
  return MessageOf(ParseStorageConfig(yaml, "storage.yaml").status());
}

TEST(ResolveStoreOptions, AWrongConfigurationIsTheErrorOfEveryStore) {
  const StorageConfig config{.schemes = {}, .wrong = absl::InvalidArgumentError("no file")};
  const auto options =
      ResolveStoreOptions(*Logdir::Parse("s3://b"), config, UrlOptions::kAll, Nothing);
  EXPECT_EQ(MessageOf(options.status()), "no file");
}

TEST(ResolveStoreOptions, SpeaksTheCratesLanguage) {
  EXPECT_THAT(Resolve("s3://b"), IsEmpty());
  EXPECT_THAT(Resolve("s3://b?endpoint=http://h:1/&region=eu&path_style=false"),
              UnorderedElementsAre(Pair("aws_endpoint", "http://h:1"), Pair("aws_region", "eu"),
                                   Pair("aws_virtual_hosted_style_request", "true"),
                                   Pair("allow_http", "true")));
  EXPECT_THAT(
      Resolve("gs://b?anonymous=true&ca_bundle=/ca.pem"),
      UnorderedElementsAre(Pair("google_skip_signature", "true"), Pair("ca_bundle", "/ca.pem")));
  EXPECT_THAT(Resolve("az://c?account=me&proxy=http://p:3128"),
              UnorderedElementsAre(Pair("azure_storage_account_name", "me"),
                                   Pair("proxy_url", "http://p:3128")));
}

TEST(ResolveStoreOptions, UrlBeatsFileBeatsEnvironment) {
  const Environment environment = [](const char* name) {
    return std::string_view(name) == "AWS_CA_BUNDLE" ? "/env.pem" : "";
  };
  const std::string yaml = "s3:\n  region: file\n  ca_bundle: /file.pem\n  aws_session_token: t\n";
  const OptionMap options = Resolve("s3://b?region=url", yaml, environment);
  EXPECT_EQ(options.at("aws_region"), "url");
  EXPECT_EQ(options.at("ca_bundle"), "/file.pem");
  EXPECT_EQ(options.at("aws_session_token"), "t");
  EXPECT_EQ(Resolve("s3://b", "", environment).at("ca_bundle"), "/env.pem");
  EXPECT_THAT(Resolve("gs://b", yaml), IsEmpty()) << "each store has its own";
}

TEST(ResolveStoreOptions, ForeignUrlsCannotSendOurIdentityElsewhere) {
  for (const char* url :
       {"s3://b?endpoint=http://evil", "gs://b?proxy=http://evil", "az://b?ca_bundle=/evil.pem"}) {
    EXPECT_THAT(Complaint(url, UrlOptions::kHarmless),
                HasSubstr("is not accepted from a logdir's URL"));
  }
  EXPECT_EQ(Complaint("s3://b?region=eu&path_style=true", UrlOptions::kHarmless), "");
}

// The library makes the names of servers of them, also of those that get the pod's identity.
TEST(ResolveStoreOptions, RegionAndAccountNameNoServer) {
  for (const char* url : {"s3://b?region=evil.example/", "s3://b?region=a%40evil",
                          "az://c?account=evil.example/", "az://c?account=a.b"})
    EXPECT_THAT(Complaint(url, UrlOptions::kHarmless), HasSubstr("letters, digits and dashes"))
        << url;
  EXPECT_EQ(Complaint("s3://b?region=ap-southeast-2"), "");
  EXPECT_EQ(Complaint("az://c?account=devstoreaccount1"), "");
}

TEST(ResolveStoreOptions, NamesWhatIsWrong) {
  EXPECT_EQ(Complaint("gs://b/x?region=eu"),
            "logdir gs://b/x: there is no option \"region\" for gs://; there are endpoint, "
            "anonymous, ca_bundle, proxy");
  EXPECT_THAT(Complaint("s3://b?aws_secret_access_key=k"), HasSubstr("there is no option"))
      << "secrets do not belong into URLs";
  EXPECT_THAT(Complaint("s3://b?path_style=yes"), HasSubstr("must be true or false"));
  EXPECT_THAT(Complaint("s3://b?endpoint=h:1"), HasSubstr("must begin with https://"));
}

TEST(ParseStorageConfig, PointsAtWhatIsWrong) {
  EXPECT_EQ(FileComplaint("s3:\n  regoin: x\n").substr(0, 55),
            "storage.yaml:2:3: s3.regoin: there is no option \"regoin");
  EXPECT_THAT(FileComplaint("ftp: {}\n"), HasSubstr("1:1: unknown key ftp"));
  EXPECT_THAT(FileComplaint("s3: [1]\n"), HasSubstr("s3 must be a map"));
  EXPECT_THAT(FileComplaint("s3:\n  region: {}\n"), HasSubstr("s3.region must be one value"));
  EXPECT_THAT(FileComplaint("s3: \"\n"), HasSubstr("storage.yaml:"));
  EXPECT_EQ(FileComplaint(""), "");
}

TEST(ResolveStoreOptions, KnowsTheEmulatorsVariable) {
  const Environment environment = [](const char* name) {
    return std::string_view(name) == "STORAGE_EMULATOR_HOST" ? "localhost:4443" : "";
  };
  const OptionMap options = Resolve("gs://b", "", environment);
  EXPECT_EQ(options.at("google_base_url"), "http://localhost:4443");
  EXPECT_EQ(options.at("allow_http"), "true");
}

}  // namespace
}  // namespace strobe::storage
