// How two sides differ, each with its tables as /api/table answers. Times are picoseconds.
import { countOf, NAME, percentOf, textOf, timeOf } from "../shared/column.js";
import { percent, several, time } from "../shared/format.js";

const SAME = 0.01; // A smaller difference of steps is not told: `strobe report` has the same limit.

const PARTS = [
  ["Compute", "computePs"],
  ["Exposed communication", "exposedCommunicationPs"],
  ["Exposed copies", "exposedCopiesPs"],
  ["Idle", "idlePs"],
  ["Idle: waiting for input", "inputPs"],
  ["Idle: garbage collection", "collectionPs"],
  ["Idle: waiting for launches", "hostBoundPs"],
];

/** The tables that are compared by name, and which of their times. */
export const COMPARED = {
  kernels: { title: "Kernels", key: "selfPs", what: "self time" },
  operators: { title: "Operators", key: "selfPs", what: "self time" },
  modules: { title: "Modules", key: "totalPs", what: "time" },
  communication: { title: "Communication", key: "totalPs", what: "time" },
};

/** The steps of the loop that takes most of the time, in the order of their numbers. */
export function mainLoop(rows) {
  const times = new Map();
  for (const { name, totalPs } of rows) times.set(name, (times.get(name) ?? 0) + totalPs);
  const [main] = [...times].sort(([, a], [, b]) => b - a)[0] ?? [];
  return rows.filter(({ name }) => name === main).sort((a, b) => a.number - b.number);
}

/** The steps of both sides beside each other: by their numbers or, if none is on both, in order. */
export function pairSteps(a, b) {
  const pairs = a.flatMap((step) => {
    const other = b.find(({ number }) => number === step.number);
    return other ? [pairOf(String(step.number), step, other)] : [];
  });
  if (pairs.length > 0) return pairs;
  return a
    .slice(0, b.length)
    .map((step, i) => pairOf(`${step.number} and ${b[i].number}`, step, b[i]));
}

function pairOf(label, a, b) {
  return { label, steps: [a, b], ...differing(a.totalPs, b.totalPs) };
}

function differing(a, b) {
  return { a, b, difference: b - a, change: a > 0 ? b / a - 1 : null };
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** What a step took, and what went into it, in the mean; only what both sides know. */
export function partsOf(a, b) {
  if (a.length === 0 || b.length === 0) return [];
  const meanOf = (steps, key) =>
    steps.every((step) => typeof step[key] === "number") ? mean(steps.map((s) => s[key])) : null;
  const parts = [["The whole step", "totalPs"], ...PARTS].map(([name, key]) => ({
    name,
    ...differing(meanOf(a, key), meanOf(b, key)),
  }));
  return parts.filter((part) => part.a !== null && part.b !== null);
}

/**
 * Rows of two tables by name. `units`: by what the times and counts of each side are divided, such
 * as its steps.
 */
export function pairRows(a, b, key, units) {
  const pairs = new Map();
  [a, b].forEach((rows, side) => {
    for (const row of rows) {
      const id = JSON.stringify([row.name, row.kind, row.group ?? ""]);
      const { name, kind, group = "" } = row;
      const pair = pairs.get(id) ?? { name, kind, group, times: [0, 0], counts: [0, 0] };
      pair.times[side] = row[key] / units[side];
      pair.counts[side] = row.count / units[side];
      pairs.set(id, pair);
    }
  });
  return [...pairs.values()].map((pair) => ({ ...pair, ...differing(...pair.times) }));
}

/** How often a worker ran a step: by what sums over a recording are divided. */
export function stepsRun(steps) {
  return steps.reduce((sum, { workers = 1 }) => sum + workers, 0);
}

/** "+1.2 ms", "−3 µs". */
export function signed(ps) {
  if (Math.round(ps) === 0) return "0";
  return `${ps > 0 ? "+" : "−"}${time(Math.abs(ps))}`;
}

function signedPercent(share) {
  return `${share < 0 ? "−" : "+"}${percent(Math.abs(share))}`;
}

export function headline(parts, steps) {
  const [whole, ...others] = parts;
  if (!whole)
    return "At least one side has no steps: the times below are those of whole recordings.";
  const few = ` (means of ${several(steps[0], "step")} and ${several(steps[1], "step")})`;
  const times = `${time(whole.a)} in A, ${time(whole.b)} in B${few}`;
  if (whole.change === null || Math.abs(whole.change) < SAME)
    return `Steps take about as long in B as in A: ${times}.`;
  const longer = whole.difference > 0;
  const share = `${Math.abs(whole.change * 100).toFixed(Math.abs(whole.change) < 0.1 ? 1 : 0)} %`;
  const most = others
    .filter(({ name }) => !name.startsWith("Idle: "))
    .sort((x, y) => (longer ? y.difference - x.difference : x.difference - y.difference))[0];
  const cause = most ? ` Most of it: ${most.name.toLowerCase()}, ${signed(most.difference)}.` : "";
  return `A step takes ${time(Math.abs(whole.difference))} ${longer ? "longer" : "less"} in B (${share}): ${times}.${cause}`;
}

// ---- Columns ------------------------------------------------------------------------------------

const DIFFERENCES = [
  timeOf("A", "a"),
  timeOf("B", "b"),
  timeOf("Difference", "difference", "B minus A. Sorted by its size, whatever its sign", {
    write: signed,
    rank: ({ difference }) => Math.abs(difference),
  }),
  percentOf("Change", ({ change }) => change, "Of the time in A", { write: signedPercent }),
];

export const PART_COLUMNS = [textOf("Part", "name"), ...DIFFERENCES];

export const STEP_COLUMNS = [
  { ...textOf("Step", "label"), leads: true, rank: ({ steps: [{ number }] }) => number },
  ...DIFFERENCES,
];

const counted = (head, side) => countOf(head, ({ counts }) => counts[side], "How many");

export function nameColumns(table) {
  return [
    NAME,
    textOf("Kind", "kind"),
    ...(table === "communication" ? [textOf("Group", "group")] : []),
    ...DIFFERENCES,
    counted("Count in A", 0),
    counted("Count in B", 1),
  ];
}
