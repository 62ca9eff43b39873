#include "cli/table_files.h"

#include <filesystem>
#include <utility>

#include "cli/output_file.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"

namespace strobe {
namespace {

namespace fs = std::filesystem;

// A value of a partition, as engines decode it.
std::string PartitionValue(std::string_view name) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string value;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || (c == '.' && !value.empty());
    if (plain) {
      value.push_back(c);
    } else {
      value += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return value;
}

class TableFile : public table::TableOutput {
 public:
  TableFile(std::unique_ptr<OutputFile> file, std::uint64_t& written)
      : file_(std::move(file)), written_(written) {}
  absl::Status Write(std::string_view piece) override { return file_->Write(piece); }
  absl::Status Finish() override {
    std::uint64_t bytes = 0;
    RETURN_IF_ERROR(file_->Finish(bytes));
    written_ += bytes;
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<OutputFile> file_;
  std::uint64_t& written_;
};

}  // namespace

absl::Status WriteTableFiles(const convert::AlignedTraces& traces, const std::string& run,
                             const std::string& directory, const table::TableOptions& options,
                             std::uint64_t& written) {
  const std::string partition = StrCat("run=", PartitionValue(run.empty() ? "run" : run));
  const auto open =
      [&](std::string_view name,
          std::string_view worker) -> absl::StatusOr<std::unique_ptr<table::TableOutput>> {
    std::string folder = StrCat(directory, "/", name, "/", partition);
    if (!worker.empty()) folder += StrCat("/worker=", PartitionValue(worker));
    std::error_code error;
    fs::create_directories(folder, error);
    if (error)
      return absl::ErrnoToStatus(error.value(), StrCat("cannot make the directory ", folder));
    ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> file,
                     OutputFile::Create(StrCat(folder, "/", name, ".parquet")));
    return std::make_unique<TableFile>(std::move(file), written);
  };
  return table::WriteRunTables(traces, options, open);
}

}  // namespace strobe
