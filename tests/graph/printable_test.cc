#include "graph/printable.h"

#include <gtest/gtest.h>

#include "graph/diagnostics.h"

namespace millrace {
namespace {

TEST(PrintableTest, TextStaysAsItIs) {
  for (const std::string text :
       {"", "plain text", "a\\nb", "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80"}) {
    EXPECT_EQ(Printable(text), text);
  }
}

TEST(PrintableTest, WhatMovesTheCursorIsSpelledOut) {
  EXPECT_EQ(Printable("a\nb\r\t\x1b[2J\x7f"), "a\\nb\\r\\t\\x1b[2J\\x7f");
  EXPECT_EQ(Printable(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("\xC2\x9B"), "\\x9b");  // U+009B, an escape of one character
}

TEST(PrintableTest, WhatReordersTextIsSpelledOut) {
  EXPECT_EQ(Printable("\xE2\x80\xAE"
                      "cod.exe"),
            "\\u202ecod.exe");
  EXPECT_EQ(Printable("\xE2\x81\xA6\xE2\x80\xA8\xEF\xBB\xBF"), "\\u2066\\u2028\\ufeff");
}

TEST(PrintableTest, BytesThatAreNoUtf8AreSpelledOut) {
  EXPECT_EQ(Printable("\xff"), "\\xff");
  EXPECT_EQ(Printable("\xC3"), "\\xc3");                    // cut
  EXPECT_EQ(Printable("\xC0\xAF"), "\\xc0\\xaf");           // longer than it must be
  EXPECT_EQ(Printable("\xE0\x80\xAF"), "\\xe0\\x80\\xaf");  // likewise
  EXPECT_EQ(Printable("\xED\xA0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(Printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(Printable("\xE4\xB8"
                      "a"),
            "\\xe4\\xb8"
            "a");
}

// A name from a file cannot fake a second line.
TEST(PrintableTest, ADiagnosticIsOneLine) {
  Diagnostic diagnostic;
  diagnostic.file = "g.json";
  diagnostic.message = "value 'x\nmillrace: all is well' is not defined";
  EXPECT_EQ(FormatDiagnostic(diagnostic),
            "g.json: value 'x\\nmillrace: all is well' is not defined");
}

}  // namespace
}  // namespace millrace
