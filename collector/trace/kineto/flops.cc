#include "collector/trace/kineto/flops.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "collector/trace/kineto/stats.h"

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

}  // namespace strobe::kineto
