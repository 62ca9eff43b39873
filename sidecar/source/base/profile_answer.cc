#include "sidecar/source/base/profile_answer.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/slice.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/base/strings.h"
#include "tensorflow/profiler_service.pb.h"

namespace strobe::source {
namespace {

using google::protobuf::internal::WireFormatLite;

// After so many bytes, freed memory is returned to the system. The allocator would keep it.
constexpr std::size_t kTrimEvery = std::size_t{16} << 20;

// Reads slices and frees each after it has been read.
class SliceStream : public google::protobuf::io::ZeroCopyInputStream {
 public:
  explicit SliceStream(std::vector<grpc::Slice> slices) : slices_(std::move(slices)) {}

  bool Next(const void** data, int* size) override {
    while (number_ < slices_.size() && at_ == slices_[number_].size()) FreeSlice();
    if (number_ == slices_.size()) return false;
    *data = slices_[number_].begin() + at_;
    *size = static_cast<int>(slices_[number_].size() - at_);
    at_ = slices_[number_].size();
    read_ += *size;
    return true;
  }

  void BackUp(int count) override {
    at_ -= static_cast<std::size_t>(count);
    read_ -= count;
  }

  bool Skip(int count) override {
    const void* data = nullptr;
    int size = 0;
    while (Next(&data, &size)) {
      if (size >= count) {
        BackUp(size - count);
        return true;
      }
      count -= size;
    }
    return false;
  }

  std::int64_t ByteCount() const override { return read_; }

 private:
  void FreeSlice() {
    freed_ += slices_[number_].size();
    slices_[number_++] = grpc::Slice();
    at_ = 0;
    if (freed_ >= kTrimEvery) {
      freed_ = 0;
      malloc_trim(0);
    }
  }

  std::vector<grpc::Slice> slices_;
  std::size_t number_ = 0, at_ = 0;  // The slice that is read, and how much of it was.
  std::size_t freed_ = 0;            // Since memory was returned.
  std::int64_t read_ = 0;
};

absl::Status Malformed() { return absl::InvalidArgumentError("the answer is malformed"); }

}  // namespace

absl::StatusOr<std::optional<std::string>> TakeXSpace(grpc::ByteBuffer& answer) {
  constexpr std::uint32_t kXSpaceTag = WireFormatLite::MakeTag(
      tensorflow::ProfileResponse::kXspaceFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  std::vector<grpc::Slice> slices;
  if (!answer.Valid()) return std::nullopt;  // An answer without any field.
  if (const grpc::Status dumped = answer.Dump(&slices); !dumped.ok())
    return absl::InvalidArgumentError(
        StrCat("the answer cannot be read: ", dumped.error_message()));
  answer.Clear();
  std::int64_t size = 0;
  for (const grpc::Slice& slice : slices) size += static_cast<std::int64_t>(slice.size());

  SliceStream stream(std::move(slices));
  google::protobuf::io::CodedInputStream in(&stream);
  std::optional<std::string> xspace;
  while (const std::uint32_t tag = in.ReadTag()) {
    if (tag != kXSpaceTag) {
      if (!WireFormatLite::SkipField(&in, tag)) return Malformed();
      continue;
    }
    std::uint32_t length = 0;
    if (!in.ReadVarint32(&length) || length > size - in.CurrentPosition()) return Malformed();
    xspace.emplace();
    xspace->reserve(length);  // Its pages are used only when something is written to them.
    if (!in.ReadString(&*xspace, static_cast<int>(length))) return Malformed();
  }
  if (!in.ConsumedEntireMessage()) return Malformed();
  return xspace;
}

}  // namespace strobe::source
