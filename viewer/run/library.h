// Where the viewer's runs come from: a port that the `strobe` command implements.
#pragma once
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collector/store/catalog/catalog.h"
#include "collector/store/object_store.h"
#include "collector/trace/convert/align.h"

namespace strobe::viewer {

inline constexpr std::size_t kAllRuns = std::numeric_limits<std::size_t>::max();

// Whether a part of a path from a browser can be the name of a folder or a file directly in another
// folder. Stores would retry other names, or resolve them to another place.
bool IsNameInFolder(std::string_view part);

// Where the objects of a run are.
struct StoredRun {
  std::unique_ptr<storage::ObjectStore> store{};
  std::string run{};  // Its name in the logdir.
};

// Runs have names that are unique in the library: of one logdir those of its folders, of several
// logdirs their URLs. All methods are called from several threads.
class Library {
 public:
  virtual ~Library() = default;
  // The names of the first `most` runs that are visible; the page opens the first one. Runs that
  // are in no logdir are visible only to those who see all.
  virtual absl::StatusOr<std::vector<std::string>> Runs(const catalog::Visible& visible,
                                                        std::size_t most) = 0;
  // Opens the traces of all workers.
  virtual absl::StatusOr<std::vector<convert::OpenTrace>> Open(const std::string& run) = 0;
  // An opaque stamp; changes whenever traces of the run are added, replaced or removed. Costs a
  // listing. Empty if the library cannot tell.
  virtual absl::StatusOr<std::string> StampOf(const std::string& run);
  // The logdirs or the file that is shown, for the page's title and for messages.
  virtual std::string location() const = 0;

  // OK if there is such a run, NotFound if there is none.
  virtual absl::Status Find(const std::string& run);
  // The URL of the logdir that the run of that name is in; empty if it is no logdir's.
  virtual std::string LogdirOf(const std::string& /*run*/) const { return ""; }
  // The name of a logdir's run.
  virtual std::string NameOf(std::string_view /*logdir*/, std::string_view run) const {
    return std::string(run);
  }
  // NotFound if the runs are not objects of a logdir.
  virtual absl::StatusOr<StoredRun> Store(const std::string& run);
  // Whether the library has a list of runs, which can be searched.
  virtual bool has_catalog() const { return false; }
  // Null if it has none. The first call may begin to make it.
  virtual const catalog::Catalog* catalog() { return nullptr; }
  // True if one run was named, which is then opened at once, without the list of runs.
  virtual bool names_a_run() const { return true; }
  // True if the list is shown even of a single run, because more are to be expected.
  virtual bool always_lists() const { return false; }
};

}  // namespace strobe::viewer
