#include "graph/json_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "graph/json_text.h"
#include "graph/strings.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

JsonDocument Parse(std::string text) {
  absl::StatusOr<JsonDocument> document = JsonDocument::Parse(std::move(text), "t.json");
  EXPECT_TRUE(document.ok()) << document.status();
  return *std::move(document);
}

std::string ParseError(std::string text, const JsonLimits& limits = {}) {
  const absl::StatusOr<JsonDocument> document =
      JsonDocument::Parse(std::move(text), "t.json", limits);
  EXPECT_FALSE(document.ok());
  EXPECT_EQ(ExitCode(document.status()), 3);
  return std::string(document.status().message());
}

TEST(JsonDocumentTest, EveryKindOfValue) {
  const JsonDocument d = Parse(R"([null, true, false, 1, -2, 1.5, "s", [], {}])");
  const JsonKind expected[] = {JsonKind::kNull,   JsonKind::kBool,  JsonKind::kBool,
                               JsonKind::kInt,    JsonKind::kInt,   JsonKind::kDouble,
                               JsonKind::kString, JsonKind::kArray, JsonKind::kObject};
  ASSERT_EQ(d.root().size, 9u);
  const JsonValue* v = d.FirstChild(d.root());
  for (const JsonKind kind : expected) {
    EXPECT_EQ(v->kind, kind) << d.RawText(*v);
    v = d.Next(*v);
  }
  EXPECT_EQ(v, nullptr);
  EXPECT_TRUE(d.at(2).boolean);
  EXPECT_FALSE(d.at(3).boolean);
  EXPECT_EQ(d.at(5).integer, -2);
  EXPECT_EQ(d.at(6).number, 1.5);
  EXPECT_EQ(d.at(7).string(), "s");
}

TEST(JsonDocumentTest, PlacesOfValuesAndKeys) {
  const JsonDocument d = Parse("{\n  \"a\" : -12 ,\n  \"b\": [1e3,\"x\\ty\" , {\"c\":\ttrue}]\n}");
  const JsonValue& a = *d.Find(d.root(), "a");
  EXPECT_EQ(d.RawText(a), "-12");
  EXPECT_EQ(d.PositionOf(a.offset), (FilePosition{2, 9}));
  EXPECT_EQ(d.PositionOf(a.key_offset), (FilePosition{2, 3}));
  const JsonValue& b = *d.Find(d.root(), "b");
  EXPECT_EQ(d.RawText(b), "[1e3,\"x\\ty\" , {\"c\":\ttrue}]");
  const JsonValue& number = *d.FirstChild(b);
  EXPECT_EQ(d.RawText(number), "1e3");
  const JsonValue& string = *d.Next(number);
  EXPECT_EQ(d.RawText(string), "\"x\\ty\"");
  EXPECT_EQ(string.string(), "x\ty");
  const JsonValue& c = *d.Find(*d.Next(string), "c");
  EXPECT_EQ(d.RawText(c), "true");
  EXPECT_EQ(d.PointerTo(c), "/b/2/c");
  EXPECT_EQ(d.RawText(d.root()).substr(0, 3), "{\n ");
  EXPECT_EQ(d.RawText(d.root()).back(), '}');
}

TEST(JsonDocumentTest, NumberAtTheVeryEndOfTheText) {
  const JsonDocument d = Parse(" 42");
  EXPECT_EQ(d.root().integer, 42);
  EXPECT_EQ(d.RawText(d.root()), "42");
}

TEST(JsonDocumentTest, ViewsSurviveAMove) {
  JsonDocument a = Parse("{\"k\":\"v\\n\"}");  // short: a moved std::string would move its bytes
  const JsonDocument b = std::move(a);
  EXPECT_EQ(b.Find(b.root(), "k")->string(), "v\n");
}

TEST(JsonDocumentTest, EscapedStringsAndKeys) {
  const JsonDocument d = Parse(R"({"a\/b~\u0041": "\ud83d\ude00\u0000\"\\", "plain": "é"})");
  const JsonValue& escaped = *d.Find(d.root(), "a/b~A");
  EXPECT_EQ(escaped.string(), std::string("\xF0\x9F\x98\x80\0\"\\", 7));
  EXPECT_EQ(d.PointerTo(escaped), "/a~1b~0A");
  EXPECT_EQ(d.Find(d.root(), "plain")->string(), "é");
}

TEST(JsonDocumentTest, IntegersKeepAll64Bits) {
  const JsonDocument d = Parse(
      "[9223372036854775807, -9223372036854775808, "
      "9223372036854775808, 18446744073709551615]");
  EXPECT_EQ(d.at(1).integer, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(d.at(2).integer, std::numeric_limits<int64_t>::min());
  EXPECT_EQ(d.at(3).kind, JsonKind::kUint);
  EXPECT_EQ(d.at(3).unsigned_integer, uint64_t{1} << 63);
  EXPECT_EQ(d.at(4).unsigned_integer, std::numeric_limits<uint64_t>::max());
}

TEST(JsonDocumentTest, NumbersThatFitNowhereAreErrors) {
  EXPECT_EQ(ParseError("[1,\n 18446744073709551616]"),
            "t.json:2:2: integer 18446744073709551616 does not fit in 64 bits");
  EXPECT_THAT(ParseError("[-9223372036854775809]"), HasSubstr("does not fit in 64 bits"));
  EXPECT_THAT(ParseError("[1e999]"), StartsWith("t.json:1:"));
  EXPECT_THAT(ParseError("[NaN]"), StartsWith("t.json:1:2"));
}

TEST(JsonDocumentTest, SyntaxErrorsNameTheirPlace) {
  const struct {
    const char* text;
    const char* where;
  } cases[] = {
      {"", "t.json:1:1: the file is empty; expected a JSON object"},
      {"{", "t.json:1:2: the file ends too early; expected a key, in double quotes"},
      {"[1,,2]", "t.json:1:4: unexpected ','; expected a value"},
      {"[1,]", "t.json:1:4: unexpected ']'; expected a value; a ',' too many before it"},
      {"{,}", "t.json:1:2: unexpected ','; expected a key, in double quotes"},
      {"{\"a\" \"bcd\"}", "t.json:1:6: unexpected string; expected ':'"},
      {"{\"a\":\n  }", "t.json:2:3: unexpected '}'; expected a value"},
      {"[1] 2", "t.json:1:5: unexpected '2'; expected the end of the file"},
      {"[tru]", "t.json:1:2: unexpected 'tru'; expected a value"},
      {"[01]", "t.json:1:3: unexpected '1'; expected ',' or ']'"},
      {"[\"a\nb\"]", "t.json:1:4: control character U+000A (LF) must be escaped"},
      {"[\"\xff\"]", "t.json:1:3: the string is not UTF-8; found byte 255"},
      {"[\"abc", "t.json:1:2: a string without an end; expected '\"' on the same line"},
      {"[\"\\ud800\"]", "t.json:1:9: surrogate U+D800..U+DBFF must be followed by"},
      {"// no comments\n1", "t.json:1:1: JSON has no comments"},
      {"\xEF\xBB\xBF[}", "t.json:1:5: unexpected '}'; expected a value"},
  };
  for (const auto& c : cases) EXPECT_THAT(ParseError(c.text), StartsWith(c.where)) << c.text;
}

TEST(JsonDocumentTest, TextAfterAZeroByteIsNotIgnored) {
  EXPECT_THAT(ParseError(std::string("{}\0{}", 5)), StartsWith("t.json:1:3: "));
}

TEST(JsonDocumentTest, DuplicateKeysAreAllReported) {
  EXPECT_EQ(ParseError("{\"a\": 1,\n \"b\": {\"c\": 1, \"\\u0063\": 2},\n \"a\": 3}"),
            "t.json:2:16: key \"c\" is used twice; first at 2:8\n"
            "t.json:3:2: key \"a\" is used twice; first at 1:2");
  std::string large = "{";
  for (int i = 0; i < 1000; ++i) large += StrCat("\"k", i, "\": 1, ");
  EXPECT_EQ(ParseError(large + "\"k500\": 2}").substr(0, 7), "t.json:");
}

TEST(JsonDocumentTest, DepthIsBounded) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(JsonDocument::Parse(nested(64), "").ok());
  EXPECT_EQ(ParseError(nested(65)), "t.json:1:65: nested more than 64 deep");
  EXPECT_THAT(ParseError(std::string(1000000, '[')), HasSubstr("nested more than 64 deep"));
}

TEST(JsonDocumentTest, SizeIsBounded) {
  EXPECT_THAT(ParseError("[1, 2]", {.max_bytes = 5}), HasSubstr("at most 5 are read"));
}

TEST(JsonDocumentTest, CompactTextDropsWhiteSpaceOnly) {
  const JsonDocument d = Parse(
      "[ { \"b\" : [ 1.50, 1e3, [ ], { } ] , \"a\": { \"x\" : \"\\u0041\\n\" } }, null, [[1], 2]]");
  EXPECT_EQ(d.CompactText(d.root()),
            "[{\"b\":[1.50,1e3,[],{}],\"a\":{\"x\":\"A\\n\"}},null,[[1],2]]");
  EXPECT_EQ(d.CompactText(*d.Find(d.at(1), "b")), "[1.50,1e3,[],{}]");
  EXPECT_EQ(d.CompactText(*d.Find(d.at(1), "a")), "{\"x\":\"A\\n\"}");
}

// --- JsonReader -------------------------------------------------------------------------------

class JsonReaderTest : public ::testing::Test {
 protected:
  JsonReader Read(std::string text) {
    document_.emplace(Parse(std::move(text)));
    return JsonReader(*document_, diagnostics_);
  }
  std::string Errors() const { return std::string(diagnostics_.ToStatus().message()); }

  std::optional<JsonDocument> document_;
  Diagnostics diagnostics_;
};

TEST_F(JsonReaderTest, ReadsWhatIsThere) {
  const JsonReader r = Read(R"({"i": 3, "u": 18446744073709551615, "d": 2.5, "b": true, "s": "x",
                                "n": "-inf", "zero": -0})");
  EXPECT_EQ(r.Required("i")->Int(0, 3), 3);
  EXPECT_EQ(r.Required("u")->Uint64(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(r.Required("d")->Number(), 2.5);
  EXPECT_EQ(r.Required("i")->Number(), 3.0);
  EXPECT_EQ(r.Required("n")->Number(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::signbit(*r.Required("zero")->Number()));
  EXPECT_EQ(r.Required("b")->Bool(), true);
  EXPECT_EQ(r.Required("s")->String(), "x");
  EXPECT_EQ(r.Optional("absent"), std::nullopt);
  EXPECT_TRUE(diagnostics_.ok());
}

TEST_F(JsonReaderTest, EachFaultIsReportedWithPlacePointerExpectedAndFound) {
  const JsonReader r = Read("{\"i\": 7,\n\"s\": \"\", \"l\": [1, 2], \"f\": 3.5}");
  EXPECT_EQ(r.Required("i")->Int(0, 3), std::nullopt);
  EXPECT_EQ(r.Required("f")->Int(0, 9), std::nullopt);
  EXPECT_EQ(r.Required("s")->String(), std::nullopt);
  EXPECT_EQ(r.Required("l")->Bool(), std::nullopt);
  EXPECT_EQ(r.Required("gone"), std::nullopt);
  EXPECT_EQ(Errors(),
            "t.json:1:7: /i: out of range; expected an integer from 0 to 3, found number 7\n"
            "t.json:2:28: /f: wrong kind of value; expected an integer from 0 to 9, found number "
            "3.5\n"
            "t.json:2:6: /s: the string is empty\n"
            "t.json:2:15: /l: wrong kind of value; expected true or false, found array of 2\n"
            "t.json:1:1: key \"gone\" is missing");
}

TEST_F(JsonReaderTest, UnknownKeysSuggestTheNearestKnownOne) {
  const JsonReader r = Read(R"({"nam": 1, "x-mine": 2, "zzzzzz": 3, "name": 4})");
  r.OnlyKeys({"name", "shape"});
  EXPECT_EQ(Errors(),
            "t.json:1:2: /nam: unknown key \"nam\"; did you mean 'name'?\n"
            "t.json:1:25: /zzzzzz: unknown key \"zzzzzz\"; known: name, shape");
}

TEST_F(JsonReaderTest, MembersFindsAllInOnePassInAnyOrder) {
  static constexpr std::string_view kKeys[] = {"a", "b", "c"};
  const JsonReader r = Read(R"({"c": 3, "x-y": 0, "a": 1})");
  std::optional<JsonReader> m[3];
  EXPECT_TRUE(r.Members(kKeys, m));
  EXPECT_TRUE(diagnostics_.ok());
  EXPECT_EQ(m[0]->Int(0, 9), 1);
  EXPECT_EQ(m[1], std::nullopt);
  EXPECT_EQ(m[2]->Int(0, 9), 3);
  EXPECT_TRUE(r.Members(kKeys, m, /*extensions=*/false));
  EXPECT_THAT(Errors(), HasSubstr("unknown key \"x-y\""));
  EXPECT_FALSE(m[0]->Members(kKeys, m));
}

TEST_F(JsonReaderTest, FormatAndMajorVersion) {
  EXPECT_TRUE(Read(R"({"format": "f", "version": "1.0"})").HasFormat("f"));
  EXPECT_TRUE(Read(R"({"format": "f", "version": "1.12"})").HasFormat("f"));
  EXPECT_TRUE(diagnostics_.ok());
  EXPECT_FALSE(Read(R"({"format": "f", "version": "2.0"})").HasFormat("f"));
  EXPECT_FALSE(Read(R"({"format": "g", "version": "1.0"})").HasFormat("f"));
  EXPECT_FALSE(Read(R"({"format": "f", "version": "1"})").HasFormat("f"));
  EXPECT_FALSE(Read(R"({"format": "f", "version": 1.0})").HasFormat("f"));
  EXPECT_FALSE(Read(R"({"format": "f", "version": "1.-1"})").HasFormat("f"));
  EXPECT_FALSE(Read(R"({"format": "f"})").HasFormat("f"));
  EXPECT_FALSE(Read("[]").HasFormat("f"));
  EXPECT_THAT(Errors(), HasSubstr("/version: version 2.0 of f is not known; expected version 1.x"));
}

TEST(JsonDocumentTest, FollowsPointers) {
  const JsonDocument d = Parse(R"({"a/b": [10, {"c": 5}]})");
  EXPECT_EQ(d.FollowPointer("/a~1b/1/c").integer, 5);
  EXPECT_EQ(d.FollowPointer("/a~1b/0").integer, 10);
  EXPECT_EQ(&d.FollowPointer("/a~1b/7/c"), d.Find(d.root(), "a/b"));
  EXPECT_EQ(&d.FollowPointer("/gone"), &d.root());
  EXPECT_EQ(&d.FollowPointer(""), &d.root());
}

TEST_F(JsonReaderTest, VisitsElementsAndMembersInFileOrder) {
  const JsonReader r = Read(R"({"b": [10, 20], "a": 1})");
  std::string seen;
  EXPECT_TRUE(r.ForEachMember([&](std::string_view key, JsonReader member) {
    StrAppend(&seen, key, " ", member.pointer(), ";");
    if (!member.IsArray()) return;
    member.ForEachElement(
        [&](JsonReader e) { StrAppend(&seen, e.pointer(), "=", *e.Int(0, 99), ";"); });
  }));
  EXPECT_EQ(seen, "b /b;/b/0=10;/b/1=20;a /a;");
  EXPECT_FALSE(r.ForEachElement([](JsonReader) { FAIL(); }));
  EXPECT_THAT(Errors(), HasSubstr("expected an array, found an object"));
}

TEST_F(JsonReaderTest, LongTextsAreShortenedBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "é";
  const std::string shown = Read(StrCat("\"a", text, "\"")).Describe();
  EXPECT_LT(shown.size(), 90u);
  EXPECT_THAT(shown, HasSubstr("é...\""));
}

// --- Spelling -----------------------------------------------------------------------------------

TEST(JsonTextTest, NumbersReadBackAsTheSameDouble) {
  EXPECT_EQ(JsonNumber(1), "1.0");
  EXPECT_EQ(JsonNumber(-0.0), "-0.0");
  EXPECT_EQ(JsonNumber(0.1), "0.1");
  EXPECT_EQ(JsonNumber(1e20), "1e+20");
  EXPECT_EQ(JsonNumber(123456789), "123456789.0");
  EXPECT_EQ(JsonNumber(std::numeric_limits<double>::quiet_NaN()), "\"nan\"");
  EXPECT_EQ(JsonNumber(-std::numeric_limits<double>::infinity()), "\"-inf\"");
  for (const double value : {1.0, 1e22, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, -3e-7}) {
    const JsonDocument d = Parse(JsonNumber(value));
    EXPECT_EQ(d.root().kind, JsonKind::kDouble);
    EXPECT_EQ(d.root().number, value);
  }
}

TEST(JsonTextTest, StringsReadBackAsTheSameBytes) {
  std::string all;
  for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
  all += "é😀";
  const JsonDocument d = Parse(JsonString(all));
  EXPECT_EQ(d.root().string(), all);
  EXPECT_EQ(JsonString("a\"\\\n\x01"), "\"a\\\"\\\\\\n\\u0001\"");
}

}  // namespace
}  // namespace millrace
