// What the tables have: for each its columns, and what its rows lead to. Times are picoseconds;
// what the trace does not tell is null.
import { bytesOf, column, countOf, NAME, percentOf, textOf, timeOf } from "../shared/column.js";
import { amount, bytes, percent, time } from "../shared/format.js";

function rateOf(head, of, unit, title) {
  const csv = [`${head} (${unit})`, (value) => value];
  return column(head, of, (value) => amount(value, unit), { title, number: true, csv });
}

const average = (row) => (row.count > 0 ? row.totalPs / row.count : null);

/** The first one of several, with an ellipsis if others differ. */
function firstOf(head, key, differ, title) {
  const of = (row) => (row[key] ? `${row[key]}${row[differ] ? ", …" : ""}` : null);
  return column(head, of, String, { title });
}

/** For a run of several workers: how many have the row, and the one that is far from the others. */
function comparing({ workers }) {
  const of = ({ odd }) => {
    if (!odd) return null;
    const { name } = workers[odd.worker] ?? { name: `worker ${odd.worker}` };
    const total = odd.totalPs > 0 ? time(odd.totalPs) : "0";
    return `${name}: ${total}, median ${time(odd.medianPs)}`;
  };
  const title = "The worker whose total is far from the median of all workers";
  return [column("Odd one out", of, String, { title, odd: true }), countOf("Workers", "workers")];
}

/** Name, kind, count and times, as most tables have them. */
function usual(more = []) {
  return [
    NAME,
    textOf("Kind", "kind"),
    countOf("Count", "count"),
    timeOf("Total", "totalPs"),
    timeOf("Self", "selfPs", "Without the rows inside"),
    timeOf("Average", average),
    timeOf("Maximum", "maxPs"),
    ...more,
  ];
}

function kernels({ devicePs }) {
  const share = (row) => (devicePs > 0 ? row.selfPs / devicePs : null);
  const occupancy = ({ occupancy: percent }) => (percent === null ? null : percent / 100);
  return usual([
    percentOf("Device time", share, "Of the time of all work on devices"),
    textOf("Category", "category", "XLA's category of the operation"),
    rateOf("FLOP/s", perSecond("flops"), "FLOP/s", "By XLA's count, over the self time"),
    rateOf("Memory", perSecond("accessedBytes"), "B/s", "Bytes accessed, over the self time"),
    percentOf("Occupancy", occupancy, "Estimated by the profiler; mean over the time"),
    column("Tensor Cores", ({ tensorCores }) => (tensorCores ? "yes" : null), String, {
      title: "By the kernel's name, as XProf and TensorBoard's plugin tell it",
    }),
    firstOf(
      "Launched by",
      "launchedBy",
      "launchersDiffer",
      "The operator around the launch; … = others differ",
    ),
    firstOf("Grid", "grid", "launchesDiffer", "Blocks of the first launch; … = others differ"),
    firstOf("Block", "block", "launchesDiffer", "Threads of the first launch; … = others differ"),
    countOf("Registers", numeric("registers"), "A thread"),
    bytesOf("Shared memory", numeric("sharedBytes"), "A block"),
  ]);
}

/** A number that the server gives as the trace writes it, which may be text. */
function numeric(key) {
  return (row) => (row[key] === null || !(Number(row[key]) >= 0) ? null : Number(row[key]));
}

/** What a row tells of its work, for each second of self time. */
function perSecond(key) {
  return (row) => (row[key] > 0 && row.selfPs > 0 ? row[key] / (row.selfPs / 1e12) : null);
}

function launching({ devicePs, joinsLaunches }) {
  const known = (of) => (row) => (joinsLaunches ? of(row) : null);
  return usual([
    timeOf(
      "Device total",
      known((row) => row.devicePs),
      "Kernels and copies launched inside",
    ),
    timeOf(
      "Device self",
      known((row) => row.deviceSelfPs),
      "Without what rows inside launched",
    ),
    percentOf(
      "Device time",
      known((row) => (devicePs > 0 ? row.devicePs / devicePs : null)),
      "Of the time of all work on devices",
    ),
    firstOf("Input shapes", "shapes", "shapesDiffer", "Of the first call; … = others differ"),
  ]);
}

function communication() {
  const hidden = ({ exposedPs, totalPs }) =>
    exposedPs === null || totalPs === 0 ? null : 1 - exposedPs / totalPs;
  return [
    NAME,
    textOf("Kind", "kind", "Where the call is recorded"),
    textOf("Group", "group", "The communicator"),
    countOf("Ranks", "ranks"),
    countOf("Count", "count"),
    timeOf("Total", "totalPs", "With the time that it waits for other ranks"),
    timeOf("Average", average),
    timeOf("Maximum", "maxPs"),
    timeOf("Exposed", "exposedPs", "While the device computes nothing"),
    percentOf("Overlapped", hidden, "The part during which the device computes"),
    bytesOf("Bytes", "bytes"),
    rateOf(
      "Algorithm bandwidth",
      (row) => row.algorithmBytesPerS,
      "B/s",
      "Bytes over time, waiting included",
    ),
    rateOf("Bus bandwidth", (row) => row.busBytesPerS, "B/s", "As nccl-tests define busbw"),
  ];
}

function steps({ worker }) {
  const parts = [
    ["Compute", "computePs"],
    ["Exposed communication", "exposedCommunicationPs"],
    ["Exposed copies", "exposedCopiesPs"],
    ["Idle", "idlePs"],
    ["Waiting for input", "inputPs"],
    ["Garbage collection", "collectionPs"],
    ["Waiting for launches", "hostBoundPs"],
  ];
  const all = worker === null;
  return [
    { ...countOf("Step", "number"), leads: true },
    textOf("Loop", "name"),
    timeOf("Start", "beginPs"),
    timeOf(all ? "Mean time" : "Time", "totalPs", "To the start of the next step"),
    ...(all ? [timeOf("Maximum", "maxPs")] : []),
    ...parts.map(([head, key]) => timeOf(head, key)),
  ];
}

function memory(answer, { workers }) {
  const change = ({ first, last }) => last - first;
  const signed = (value) => (value < 0 ? `−${bytes(-value)}` : bytes(value));
  return [
    { ...column("Worker", (row) => workers[row.worker]?.name ?? null), leads: true },
    textOf("Device", "plane"),
    textOf("Counter", "counter"),
    bytesOf("Peak", "peak"),
    timeOf("Peak at", "peakAtPs"),
    bytesOf("First", "first"),
    bytesOf("Last", "last"),
    bytesOf("Change", change, "From the first value to the last one", { write: signed }),
  ];
}

// Steps are summed under one name, whatever their numbers.
const find = ({ name }) => ({ find: name === "ProfilerStep*" ? "ProfilerStep#" : name });

const MAX_KINDS = 6; // What one sentence names.

/** What all kernels together did: the kinds with the most time, and how well they use the device. */
function kernelsTogether({ rows, devicePs }) {
  const sum = (all, of) => all.reduce((whole, row) => whole + of(row), 0);
  const kinds = new Map();
  for (const { category, kind, selfPs } of rows)
    kinds.set(category ?? kind, (kinds.get(category ?? kind) ?? 0) + selfPs);
  const most = [...kinds].sort(([, a], [, b]) => b - a).slice(0, MAX_KINDS);
  const told = most.map(([kind, ps]) => `${kind} ${percent(ps / devicePs)}`);
  const facts = devicePs > 0 ? [`${time(devicePs)} on devices: ${told.join(", ")}`] : [];
  const gpu = rows.filter(({ kind }) => kind === "kernel");
  const fast = sum(gpu, ({ tensorCores, selfPs }) => (tensorCores ? selfPs : 0));
  if (fast > 0) facts.push(`Tensor Cores ${percent(fast / sum(gpu, (row) => row.selfPs))}`);
  const occupied = gpu.filter(({ occupancy }) => occupancy !== null);
  const weighed = sum(occupied, ({ occupancy, totalPs }) => occupancy * totalPs);
  if (weighed > 0)
    facts.push(`occupancy ${percent(weighed / sum(occupied, (row) => row.totalPs) / 100)}`);
  return facts.join("; ");
}

/**
 * By name: {title, columns(answer), order, up, place(row, description), together(answer)}: what it
 * is sorted by at first, what of the timeline a row leads to, and a sentence about all rows.
 */
const TABLES = {
  kernels: {
    title: "Kernels",
    columns: kernels,
    order: "Self",
    place: find,
    together: kernelsTogether,
  },
  operators: { title: "Operators", columns: launching, order: "Self", place: find },
  modules: { title: "Modules", columns: launching, order: "Total", place: find },
  communication: { title: "Communication", columns: communication, order: "Total", place: find },
  memory: {
    title: "Memory",
    columns: memory,
    order: "Peak",
    place: (row, { workers }) => ({ worker: workers[row.worker]?.name ?? "" }),
  },
  steps: {
    title: "Steps",
    columns: steps,
    order: "Step",
    up: true,
    place: (row, { workers }, worker) => ({
      step: row.number,
      worker: worker === null ? "" : workers[worker].name,
    }),
  },
};

export const NAMES = Object.keys(TABLES);

export function tableNamed(name) {
  return TABLES[name];
}

/** The columns of an answer of /api/table. Those in which no row has a value are left out. */
export function columnsOf(answer, description) {
  const all = TABLES[answer.table].columns(answer, description);
  const compares = answer.worker === null && description.workers.length > 1;
  const maximum = all.findIndex(({ head }) => head === "Maximum");
  // What tells one worker from the others stands where no page is too narrow for it.
  if (compares && maximum >= 0) all.splice(maximum + 1, 0, ...comparing(description));
  return all.filter(
    ({ of, leads }) => leads || answer.rows.some((row) => of(row) !== null && of(row) !== ""),
  );
}
