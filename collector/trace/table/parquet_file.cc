#include "collector/trace/table/parquet_file.h"

#include <utility>
#include <vector>

#include "collector/store/bridge/parquet.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe::table {
namespace {

class BridgedFile : public ParquetFile {
 public:
  explicit BridgedFile(Sink sink) : sink_(std::move(sink)) {}
  ~BridgedFile() override { strobe_parquet_free(file_); }
  BridgedFile(const BridgedFile&) = delete;
  BridgedFile& operator=(const BridgedFile&) = delete;

  absl::Status Open(const std::string& schema) {
    strobe_store_error error = {};
    return Checked(strobe_parquet_open(schema.c_str(), &BridgedFile::Take, this, &file_, &error),
                   error);
  }

  absl::Status Write(std::span<const Column> columns, std::size_t rows) override {
    std::vector<std::vector<strobe_parquet_text>> dictionaries;
    std::vector<strobe_parquet_column> raw;
    for (const Column& column : columns) {
      std::vector<strobe_parquet_text>& texts = dictionaries.emplace_back();
      texts.reserve(column.dictionary.size());
      for (const std::string_view text : column.dictionary)
        texts.push_back({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
      raw.push_back({.integers = column.integers.data(),
                     .numbers = column.numbers.data(),
                     .texts = column.texts.data(),
                     .dictionary = texts.data(),
                     .dictionary_size = texts.size(),
                     .present = column.present.empty() ? nullptr : column.present.data()});
    }
    strobe_store_error error = {};
    return Checked(strobe_parquet_write(file_, raw.data(), raw.size(), rows, &error), error);
  }

  absl::Status Finish() override {
    strobe_store_error error = {};
    return Checked(strobe_parquet_finish(file_, &error), error);
  }

 private:
  static int Take(void* self, const std::uint8_t* bytes, std::size_t size) {
    auto& file = *static_cast<BridgedFile*>(self);
    if (!file.taken_.ok()) return 1;
    file.taken_ = file.sink_({reinterpret_cast<const char*>(bytes), size});
    return file.taken_.ok() ? 0 : 1;
  }

  // The sink's own error explains the bridge's.
  absl::Status Checked(int code, const strobe_store_error& error) const {
    const std::unique_ptr<char, decltype(&strobe_store_free_text)> message(error.message,
                                                                           &strobe_store_free_text);
    RETURN_IF_ERROR(taken_);
    if (code == STROBE_STORE_OK) return absl::OkStatus();
    return absl::InternalError(StrCat("cannot write a Parquet file: ",
                                      message ? std::string_view(message.get()) : "no reason"));
  }

  Sink sink_;
  absl::Status taken_ = absl::OkStatus();
  strobe_parquet* file_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ParquetFile>> ParquetFile::Create(const std::string& schema,
                                                                 Sink sink) {
  auto file = std::make_unique<BridgedFile>(std::move(sink));
  RETURN_IF_ERROR(file->Open(schema));
  return file;
}

}  // namespace strobe::table
