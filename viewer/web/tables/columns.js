// What the tables have: for each its columns, and what its rows lead to. Times are picoseconds;
// what the trace does not tell is null.
import { bytesOf, column, countOf, NAME, percentOf, textOf, timeOf } from "../shared/column.js";
import { amount, bytes, time } from "../shared/format.js";

function rateOf(head, key, title) {
  const of = (row) => row[key] ?? null;
  const csv = [`${head} (B/s)`, (value) => value];
  return column(head, of, (value) => amount(value, "B/s"), { title, number: true, csv });
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
  ]);
}

function communication() {
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
    bytesOf("Bytes", "bytes"),
    rateOf("Algorithm bandwidth", "algorithmBytesPerS", "Bytes over time, waiting included"),
    rateOf("Bus bandwidth", "busBytesPerS", "As nccl-tests define busbw"),
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

/**
 * By name: {title, columns(answer), order, up, place(row, description)}: what it is sorted by at
 * first, and what of the timeline a row leads to.
 */
const TABLES = {
  kernels: { title: "Kernels", columns: kernels, order: "Self", place: find },
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
