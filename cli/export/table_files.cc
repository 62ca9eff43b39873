#include "cli/export/table_files.h"

#include <filesystem>
#include <utility>

#include "cli/base/output_file.h"
#include "common/base/status_macros.h"
#include "common/base/strings.h"
#include "common/text/safe_text.h"

namespace strobe::cli {
namespace {

namespace fs = std::filesystem;

class TableFile : public table::Output {
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
                             const std::string& directory, const table::Options& options,
                             std::uint64_t& written) {
  const std::string partition = StrCat("run=", UrlEncode(run.empty() ? "run" : run));
  const auto open = [&](std::string_view name,
                        std::string_view worker) -> absl::StatusOr<std::unique_ptr<table::Output>> {
    std::string folder = StrCat(directory, "/", name, "/", partition);
    if (!worker.empty()) folder += StrCat("/worker=", UrlEncode(worker));
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

}  // namespace strobe::cli
