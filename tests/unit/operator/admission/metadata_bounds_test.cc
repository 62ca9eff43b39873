#include "operator/admission/metadata_bounds.h"

#include <gmock/gmock.h>

#include "common/base/strings.h"

namespace strobe::admission {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Json With(const std::string& field, int count, bool list) {
  Json object = {{"metadata", {{field, list ? Json::array() : Json::object()}}}};
  for (int i = 0; i < count; ++i) {
    if (list)
      object["metadata"][field].push_back(StrCat("x/", i));
    else
      object["metadata"][field][StrCat("x", i)] = "";
  }
  return object;
}

TEST(WhyTooManyEntries, EachKindOfEntryIsBounded) {
  struct Field {
    const char* name;
    int most;
    bool list;
  };
  for (const Field& field : {Field{"labels", 64, false}, Field{"annotations", 64, false},
                             Field{"finalizers", 16, true}, Field{"ownerReferences", 16, true}}) {
    const Json most = With(field.name, field.most, field.list);
    const Json more = With(field.name, field.most + 1, field.list);
    EXPECT_EQ(WhyTooManyEntries(most, nullptr), "") << field.name;
    EXPECT_THAT(WhyTooManyEntries(more, nullptr), HasSubstr(field.name));
    EXPECT_THAT(WhyTooManyEntries(more, most), HasSubstr(field.name));
  }
}

// Else nobody could take a finalizer away from an object of before.
TEST(WhyTooManyEntries, AnObjectThatHasTooManyMayLoseSome) {
  EXPECT_EQ(WhyTooManyEntries(With("labels", 100, false), With("labels", 100, false)), "");
  EXPECT_EQ(WhyTooManyEntries(With("labels", 99, false), With("labels", 100, false)), "");
}

TEST(WhyTooManyEntries, OddShapesThrowNothing) {
  for (const Json& object :
       {Json(), Json(1), Json{{"metadata", "x"}}, Json{{"metadata", {{"labels", 1}}}}})
    EXPECT_EQ(WhyTooManyEntries(object, object), "");
}

}  // namespace
}  // namespace strobe::admission
