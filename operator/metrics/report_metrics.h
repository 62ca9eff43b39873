// The metrics of what captures tell about their jobs. Labels: the namespace only.
#pragma once
#include <memory>
#include <string>

#include "capture/ports.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace strobe::metrics {

class ReportMetrics {
 public:
  explicit ReportMetrics(prometheus::Registry& registry);  // Must outlive it.
  ~ReportMetrics();

  // What the report does not know is not observed.
  void Observe(const std::string& ns, const capture::JobReport& report);

 private:
  struct Families;
  const std::unique_ptr<Families> families_;
};

}  // namespace strobe::metrics
