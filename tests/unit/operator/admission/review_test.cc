#include "operator/admission/review.h"

#include <gmock/gmock.h>

#include "absl/strings/escaping.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;

Json Review() {
  return {{"apiVersion", "admission.k8s.io/v1"},
          {"kind", "AdmissionReview"},
          {"request",
           {{"uid", "u"},
            {"operation", "CREATE"},
            {"namespace", "ml"},
            {"userInfo", {{"username", "jane"}}},
            {"object", {{"kind", "Pod"}}}}}};
}

TEST(Review, ReadsAQuestion) {
  const auto request = ParseReview(Review().dump());
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->uid, "u");
  EXPECT_EQ(request->ns, "ml");
  EXPECT_EQ(request->object["kind"], "Pod");
  EXPECT_EQ(request->user["username"], "jane");
}

TEST(Review, WhatIsNoneIsRefused) {
  Json old = Review(), without = Review();
  old["apiVersion"] = "admission.k8s.io/v1beta1";
  without["request"].erase("uid");
  for (const std::string& bad :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), old.dump(),
        without.dump(), std::string("\xff\xfe"), std::string(100'000, '['),
        "[" + std::string(1'000'000, ',') + "]", std::string(R"({"request":1})")}) {
    EXPECT_EQ(ParseReview(bad).status().code(), absl::StatusCode::kInvalidArgument)
        << bad.substr(0, 50);
  }
}

TEST(Review, BracketsInTextAreNoBrackets) {
  Json review = Review();
  review["request"]["object"]["text"] = std::string(1000, '[') + "\"\\" + std::string(1000, '{');
  EXPECT_TRUE(ParseReview(review.dump()).ok());
}

TEST(Review, AnswersCarryTheirPatch) {
  Answer answer;
  answer.patch.push_back({{"op", "add"}, {"path", "/a"}, {"value", 1}});
  answer.warnings = {std::string(1000, 'w')};
  const Json written = Json::parse(AnswerReview("u", answer));
  std::string patch;
  ASSERT_TRUE(absl::Base64Unescape(written["response"]["patch"].get<std::string>(), &patch));
  EXPECT_EQ(Json::parse(patch), answer.patch);
  EXPECT_EQ(written["response"]["patchType"], "JSONPatch");
  EXPECT_LE(written["response"]["warnings"][0].get<std::string>().size(), 256u);
  EXPECT_FALSE(Json::parse(AnswerReview("u", {}))["response"].contains("patch"));
}

TEST(Review, RefusalsSayWhy) {
  Answer answer;
  answer.allowed = false;
  answer.code = 403;
  answer.message = "no";
  const Json written = Json::parse(AnswerReview("u", answer));
  EXPECT_EQ(written["response"]["allowed"], false);
  EXPECT_EQ(written["response"]["status"]["code"], 403);
  EXPECT_EQ(written["response"]["status"]["message"], "no");
}

}  // namespace
}  // namespace strobe::admission
