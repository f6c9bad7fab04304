// A message is a sequence of fields: a varint key (number * 8 + wire type), then a varint, four or
// eight bytes, or a length and that many bytes. Submessages and packed lists are of the last kind.
// (https://protobuf.dev/programming-guides/encoding)
#include "ops/onnx/wire.h"

#include <google/protobuf/descriptor.h>

#include <optional>

#include "absl/container/flat_hash_map.h"
#include "graph/strings.h"

namespace millrace {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

enum WireType {
  kVarint = 0,
  kFixed64 = 1,
  kBytes = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5
};

struct Field {
  int number = 0;
  int wire_type = 0;
  int64_t offset = 0;      // of its key
  std::string_view bytes;  // kBytes
};

// Splits one message into fields.
class FieldReader {
 public:
  // `base`: the offset of `bytes` in the file.
  FieldReader(std::string_view bytes, int64_t base) : bytes_(bytes), base_(base) {}

  bool AtEnd() const { return at_ == bytes_.size(); }
  int64_t offset() const { return base_ + static_cast<int64_t>(at_); }

  // nullopt, with fault() set, when the bytes are no field.
  std::optional<Field> Next() {
    Field field;
    field.offset = offset();
    const std::optional<uint64_t> key = Varint();
    if (!key.has_value()) return std::nullopt;
    field.wire_type = static_cast<int>(*key & 7);
    if (*key >> 3 == 0 || *key >> 3 > FieldDescriptor::kMaxNumber) {
      return Fail(StrCat("no field has the number ", *key >> 3));
    }
    field.number = static_cast<int>(*key >> 3);
    switch (field.wire_type) {
      case kVarint:
        if (!Varint().has_value()) return std::nullopt;
        return field;
      case kFixed64:
        return Skip(field, 8);
      case kFixed32:
        return Skip(field, 4);
      case kBytes: {
        const std::optional<uint64_t> length = Varint();
        if (!length.has_value()) return std::nullopt;
        return Skip(field, *length);
      }
      default:
        return Fail(StrCat("field ", field.number, " has wire type ", field.wire_type,
                           ", which ONNX does not use"));
    }
  }

  const std::string& fault() const { return fault_; }

 private:
  std::nullopt_t Fail(std::string fault) {
    fault_ = std::move(fault);
    return std::nullopt;
  }

  std::optional<Field> Skip(Field& field, uint64_t length) {
    const uint64_t left = bytes_.size() - at_;
    if (length > left) {
      return Fail(StrCat("field ", field.number, " of ", length, " bytes runs past the end: ", left,
                         left == 1 ? " byte is left" : " bytes are left"));
    }
    field.bytes = bytes_.substr(at_, length);
    at_ += length;
    return field;
  }

  std::optional<uint64_t> Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (AtEnd()) return Fail("the data end in the middle of a number");
      const uint8_t byte = static_cast<uint8_t>(bytes_[at_++]);
      if (shift < 64) value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return Fail("a number is longer than 10 bytes");
  }

  std::string_view bytes_;
  const int64_t base_;
  size_t at_ = 0;
  std::string fault_;
};

// The way from the outermost message to one within, as a list that grows inwards.
struct Place {
  const Place* outer = nullptr;
  const FieldDescriptor* field = nullptr;
  int index = 0;
  int depth = 0;
};

std::string PathTo(const Place& place) {
  if (place.field == nullptr) return "";
  std::string path = StrCat(PathTo(*place.outer), "/", place.field->name());
  if (place.field->is_repeated()) StrAppend(&path, "/", place.index);
  return path;
}

class WireChecker {
 public:
  WireChecker(std::string_view all, std::string_view file, Diagnostics& diagnostics)
      : all_(all), file_(file), diagnostics_(diagnostics) {}

  // False after the first fault.
  bool Check(std::string_view bytes, const Descriptor& type, const Place& place) {
    FieldReader reader(bytes, bytes.data() - all_.data());
    absl::flat_hash_map<int, int> counts;  // of repeated submessages, by field
    while (!reader.AtEnd()) {
      const int64_t offset = reader.offset();
      const std::optional<Field> field = reader.Next();
      if (!field.has_value()) return Report(offset, PathTo(place), reader.fault());
      const FieldDescriptor* known = type.FindFieldByNumber(field->number);
      if (known == nullptr) continue;  // of a later version of the format
      if (!Fits(*known, field->wire_type)) {
        return Report(offset, StrCat(PathTo(place), "/", known->name()),
                      StrCat("wire type ", field->wire_type, " does not fit a field of type ",
                             known->type_name()));
      }
      if (known->type() != FieldDescriptor::TYPE_MESSAGE) continue;
      const Place below = {&place, known, counts[field->number]++, place.depth + 1};
      if (below.depth > kMaxMessageDepth) {
        return Report(offset, "", StrCat("messages nest more than ", kMaxMessageDepth, " deep"));
      }
      if (++messages_ > kFreeMessages && messages_ > all_.size() / kMinBytesPerMessage) {
        return Report(offset, PathTo(below),
                      StrCat("more than ", messages_ - 1, " messages in ", all_.size(),
                             " bytes: nearly all of them are empty"));
      }
      if (!Check(field->bytes, *known->message_type(), below)) return false;
    }
    return true;
  }

 private:
  // An empty message is 2 bytes in the file and some 200 in memory.
  static constexpr size_t kFreeMessages = 100'000, kMinBytesPerMessage = 4;

  static bool Fits(const FieldDescriptor& field, int wire_type) {
    if (wire_type == kBytes && field.is_packable()) return true;  // a packed list
    switch (field.type()) {
      case FieldDescriptor::TYPE_MESSAGE:
      case FieldDescriptor::TYPE_STRING:
      case FieldDescriptor::TYPE_BYTES:
        return wire_type == kBytes;
      case FieldDescriptor::TYPE_DOUBLE:
        return wire_type == kFixed64;
      case FieldDescriptor::TYPE_FLOAT:
        return wire_type == kFixed32;
      default:
        return wire_type == kVarint;
    }
  }

  bool Report(int64_t offset, std::string pointer, std::string message) {
    Diagnostic d;
    d.file = std::string(file_);
    d.offset = offset;
    d.pointer = std::move(pointer);
    d.message = std::move(message);
    diagnostics_.Add(std::move(d));
    return false;
  }

  const std::string_view all_;
  const std::string_view file_;
  Diagnostics& diagnostics_;
  size_t messages_ = 0;
};

}  // namespace

void CheckWireFormat(std::string_view bytes, const Descriptor& type, std::string_view file,
                     Diagnostics& diagnostics) {
  WireChecker(bytes, file, diagnostics).Check(bytes, type, Place());
}

int64_t OffsetOf(std::string_view bytes, std::span<const WireStep> path) {
  std::string_view at = bytes;
  for (const WireStep& step : path) {
    FieldReader reader(at, 0);
    int index = 0;
    std::optional<std::string_view> found;
    while (!found.has_value() && !reader.AtEnd()) {
      const std::optional<Field> field = reader.Next();
      if (!field.has_value()) return -1;
      if (field->number == step.field && field->wire_type == kBytes && index++ == step.index) {
        found = field->bytes;
      }
    }
    if (!found.has_value()) return -1;
    at = *found;
  }
  return at.data() - bytes.data();
}

}  // namespace millrace
