#include "collector/trace/kineto/event_encoder.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "collector/trace/kineto/engine_names.h"
#include "collector/trace/kineto/stats.h"
#include "collector/trace/xplane/names.h"

namespace strobe::kineto {
namespace {

using Shape = std::vector<std::uint64_t>;
using Flops = std::optional<std::uint64_t>;

// More inputs or dimensions than any of the operators has.
constexpr std::size_t kMaxInputs = 8, kMaxDimensions = 8;

Flops Product(std::span<const std::uint64_t> factors) {
  std::uint64_t product = 1;
  for (const std::uint64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

// A list, which some programs write as a text.
std::string_view List(const TraceEvent& event, std::string_view key) {
  for (const Member& arg : event.args) {
    const bool is_list =
        arg.value.kind == JsonValue::Kind::kNested || arg.value.kind == JsonValue::Kind::kText;
    if (arg.key == key && is_list) return arg.value.text;
  }
  return {};
}

// The elements of a list whose elements are lists, such as "[[2, 3], []]", or texts in quotes.
std::vector<std::string_view> Elements(std::string_view list, char open, char close) {
  std::vector<std::string_view> elements;
  if (!list.empty()) list.remove_prefix(1);
  while (elements.size() < kMaxInputs) {
    const std::size_t begin = list.find(open);
    std::size_t end = begin == std::string_view::npos ? begin : list.find(close, begin + 1);
    while (close == '"' && end != std::string_view::npos && list[end - 1] == '\\')
      end = list.find(close, end + 1);
    if (end == std::string_view::npos) break;
    elements.push_back(list.substr(begin, end + 1 - begin));
    list.remove_prefix(end + 1);
  }
  return elements;
}

// Returns the shapes of the event's inputs. An input that is no tensor has no dimensions. A list of
// tensors, which none of the operators takes, ends the result.
std::vector<Shape> ShapesOf(const TraceEvent& event) {
  std::vector<Shape> shapes;
  for (const std::string_view element : Elements(List(event, "Input Dims"), '[', ']')) {
    std::optional<Shape> shape = NaturalsIn(element, kMaxDimensions);
    if (!shape) break;
    shapes.push_back(*std::move(shape));
  }
  return shapes;
}

// Counts the product of [n, k] and [k, m], or that of a batch of such pairs.
Flops MatrixProduct(const Shape& a, const Shape& b, std::size_t dimensions) {
  if (a.size() != dimensions || b.size() != dimensions) return std::nullopt;
  const std::uint64_t batch = dimensions == 3 ? a[0] : 1;
  return Product(
      std::array{std::uint64_t{2}, batch, a[dimensions - 2], a[dimensions - 1], b[dimensions - 1]});
}

// The values of an input that is a list of two numbers.
std::optional<Shape> Pair(const std::vector<std::string_view>& inputs, std::size_t input) {
  if (inputs.size() <= input || inputs[input].size() < 2) return std::nullopt;
  std::optional<Shape> pair =
      NaturalsIn(inputs[input].substr(1, inputs[input].size() - 2), kMaxDimensions);
  return pair && pair->size() == 2 ? pair : std::nullopt;
}

// Counts the convolution of images [n, c, h, w] with kernels [o, c / groups, h, w].
Flops Convolution(const TraceEvent& event, const Shape& image, const Shape& kernel) {
  const std::vector<std::string_view> inputs = Elements(List(event, "Concrete Inputs"), '"', '"');
  const std::optional<Shape> stride = Pair(inputs, 3), padding = Pair(inputs, 4),
                             dilation = Pair(inputs, 5);
  if (image.size() != 4 || kernel.size() != 4 || !stride || !padding || !dilation)
    return std::nullopt;
  constexpr std::uint64_t kMax = std::uint64_t{1} << 31;  // So that sums do not overflow.
  std::array<std::uint64_t, 6> factors = {2, image[0], kernel[0], kernel[1], kernel[2], kernel[3]};
  Flops flops = Product(factors);
  for (const std::size_t i : {0u, 1u}) {
    const std::uint64_t size = image[i + 2], width = kernel[i + 2];
    for (const std::uint64_t value : {size, width, (*padding)[i], (*dilation)[i]})
      if (value > kMax) return std::nullopt;
    const std::uint64_t padded = size + 2 * (*padding)[i];
    const std::uint64_t used = width == 0 ? 0 : (*dilation)[i] * (width - 1) + 1;
    if ((*stride)[i] == 0 || used > padded || !flops) return std::nullopt;
    flops = Product(std::array{*flops, (padded - used) / (*stride)[i] + 1});
  }
  return flops;
}

// The number of "ProfilerStep#12".
std::optional<std::int64_t> StepNumber(std::string_view name) {
  if (!name.starts_with(xplane::kTorchStep)) return std::nullopt;
  name.remove_prefix(xplane::kTorchStep.size());
  if (!name.starts_with('#')) return std::nullopt;
  return IntegerOf({JsonValue::Kind::kScalar, name.substr(1)});
}

}  // namespace

std::optional<std::uint64_t> FlopsOf(const TraceEvent& event) {
  constexpr std::string_view kNamespace = "aten::";
  constexpr std::array<std::string_view, 7> kCounted = {"mm",     "addmm", "bmm", "baddbmm",
                                                        "conv2d", "mul",   "add"};
  if (!event.name.starts_with(kNamespace)) return std::nullopt;
  const std::string_view op = event.name.substr(kNamespace.size());
  if (std::find(kCounted.begin(), kCounted.end(), op) == kCounted.end()) return std::nullopt;
  const std::vector<Shape> shapes = ShapesOf(event);
  const std::size_t inputs = shapes.size();
  if (inputs >= 1 && (op == "mul" || op == "add")) return Product(shapes[0]);
  if (inputs >= 2 && op == "mm") return MatrixProduct(shapes[0], shapes[1], 2);
  if (inputs >= 2 && op == "bmm") return MatrixProduct(shapes[0], shapes[1], 3);
  if (inputs >= 3 && op == "addmm") return MatrixProduct(shapes[1], shapes[2], 2);
  if (inputs >= 3 && op == "baddbmm") return MatrixProduct(shapes[1], shapes[2], 3);
  if (inputs >= 2 && op == "conv2d") return Convolution(event, shapes[0], shapes[1]);
  return std::nullopt;
}

std::int64_t NameIdOf(const TraceEvent& event, const Line& line) {
  if (StepNumber(event.name)) return line.group->names.EventId(xplane::kTorchStep);
  const std::optional<EngineName> engine = EngineNameOf(event.name);
  return line.group->names.EventId(engine ? engine->kind() : event.name);
}

void EventEncoder::Begin(const TraceEvent& event, Line& line, std::int64_t begin_ps) {
  line.Begin(NameIdOf(event, line), begin_ps, bytes_);
  AddHead(event, line);
}

void EventEncoder::BeginStats(const TraceEvent& event, const Line& line) {
  bytes_.Clear();
  AddHead(event, line);
}

// The stats that do not depend on the kind of the event.
void EventEncoder::AddHead(const TraceEvent& event, const Line& line) {
  PlaneNames& names = line.group->names;
  const std::optional<EngineName> engine = EngineNameOf(event.name);
  const std::optional<std::int64_t> step = engine ? engine->step() : StepNumber(event.name);
  if (step) {
    bytes_.AddInt(names.StatId("step_num"), *step);
    bytes_.AddInt(names.StatId("_r"), 1);  // The root of what ran during the step.
  }
  if (engine) {
    for (const EngineStat& stat : engine->stats())
      bytes_.AddInt(names.StatId(stat.name), stat.value);
  }
  if (step || engine) AddTextStat(xplane::kOwnName, event.name, names, bytes_);
  AddCategory(event, names);
  if (line.shared) {
    AddTextStat("pid", event.pid, names, bytes_);
    AddTextStat("tid", event.tid, names, bytes_);
  }
}

std::optional<std::int64_t> EventEncoder::AddStats(const TraceEvent& event, EventKind kind,
                                                   std::int64_t begin_ps, Line& line) {
  PlaneNames& names = line.group->names;
  std::optional<std::int64_t> correlation;
  const bool is_kernel = kind == EventKind::kKernel;
  const std::string details = is_kernel                    ? KernelDetails(event)
                              : kind == EventKind::kMemcpy ? MemcpyDetails(event)
                                                           : "";
  for (const Member& arg : event.args) {
    const std::optional<std::int64_t> id =
        arg.key == "correlation" ? IntegerOf(arg.value) : std::nullopt;
    if (id) {
      AddCorrelation(*id, begin_ps, line);
      correlation = id;
    } else if (!is_kernel || details.empty() || !InKernelDetails(arg)) {
      AddStat(arg, names, bytes_);
    }
  }
  if (!details.empty())
    AddTextStat(is_kernel ? "kernel_details" : "memcpy_details", details, names, bytes_);
  const bool is_operator = event.category == "cpu_op" || event.category == "Operator";
  if (const auto flops = is_operator ? FlopsOf(event) : std::nullopt)
    bytes_.AddUint(names.UseStat(flops_), *flops);
  AddOtherMembers(event, names, bytes_);
  return correlation;
}

void EventEncoder::AddCategory(const TraceEvent& event, PlaneNames& names) {
  if (!event.category.empty()) AddTextStat(names.UseStat(category_), event.category, names, bytes_);
}

void EventEncoder::AddCorrelation(std::int64_t correlation, std::int64_t begin_ps, Line& line) {
  line.group->launches.Add(correlation, begin_ps);
  bytes_.AddInt(line.group->names.UseStat(correlation_), correlation);
}

void EventEncoder::AddFlow(std::uint64_t flow, Line& line) {
  bytes_.AddUint(line.group->names.UseStat(flow_), flow);
}

}  // namespace strobe::kineto
