// Shorter forms of names that are longer than their place. What tells most of a name is often not
// its begin: a Python frame's function comes last, a kernel's name behind its namespaces.

const PYTHON = /^(?:.*\/)?([^/]+\(\d+\): (.+))$/; // "torch/nn/modules/linear.py(130): forward"
const OTHERS = [
  /^\$\S+:\d+ (.+)$/, // "$profiler.py:226 trace", as JAX's tracer writes it.
  /^<built-in (?:method|function) (\w+).*>$/,
  /^\w[\w.:]*: (.+)$/, // "nn.Module: Linear_0"
  /^(?:\w+::)+(\w+)$/, // "aten::mm"
  /^nccl(?:Dev)?Kernel_(\w+)$/, // "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
];
const SIGNATURE = /^(?:void )?((?:\(anonymous namespace\)|[\w:~])+(?:<.*>)?)\((.*)$/; // Reports cut long names.
const NAMESPACES = /(?:\(anonymous namespace\)|\w+)::/g;
const WRAPPED = /^Kernel\d*<(\w+)>$/; // By CUTLASS, whose kernels are all called so.
const MIN_MIDDLE = 9; // Letters; a shorter text keeps its begin only.

/** Whether what stands in a name's parentheses are a function's parameters. */
function isSignature(name, parameters) {
  return name.startsWith("void ") || /[*&<]|::|^(?:int|float|long|bool)\b/.test(parameters);
}

/** A kernel's name without what it returns and takes and where it is declared; others as they are. */
export function shortKernel(name) {
  const [, kernel, parameters] = SIGNATURE.exec(name) ?? [];
  if (!kernel || !isSignature(name, parameters)) return name;
  return kernel.replace(NAMESPACES, "").replace(WRAPPED, "$1");
}

const MAX_KNOWN = 10_000; // More names than a screen shows; a trace may have millions.
const known = new Map(); // The forms of names, which are asked for in every frame.

/** The shorter forms of a name, the longest first. */
function formsOf(name) {
  if (known.size >= MAX_KNOWN) known.clear();
  if (!known.has(name)) known.set(name, findForms(name));
  return known.get(name);
}

function findForms(name) {
  const [, ...frame] = PYTHON.exec(name) ?? [];
  if (frame.length > 0) return frame;
  const kernel = shortKernel(name);
  const other = OTHERS.map((form) => form.exec(kernel)?.[1]).find(Boolean);
  return other ? [other] : [kernel, kernel.replace(/<.*/, "") || kernel];
}

/** The form of a name that fits into `letters`: if none does, the shortest, cut. */
export function fitted(name, letters) {
  if (name.length <= letters) return name;
  const [whole, short = whole] = formsOf(name);
  if (whole.length <= letters) return whole;
  // The first of a kernel's template arguments tell more than the last ones.
  if (whole.startsWith(`${short}<`) && short.length + 4 < letters) return begin(whole, letters);
  if (short.length <= letters) return short;
  if (letters < MIN_MIDDLE) return begin(short, letters);
  const tail = Math.floor((letters - 1) * 0.4);
  return begin(short, letters - tail) + short.slice(-tail).replace(/^[\uDC00-\uDFFF]/, "");
}

/** No half of a letter that takes two of JavaScript's is left, such as an emoji's. */
function begin(text, letters) {
  return `${text.slice(0, Math.max(0, letters - 1)).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
