// The charts of the overview: the strip of steps, and the map of waits.
import { CellChart, hatch } from "./cell_chart.js";
import { nanoseconds, several, waitText } from "./words.js";

const STEP_HEIGHT = 72;
const MANY_WORKERS = 24; // From this many on, the map's rows are low.
// A wait counts as undecided if its error is as large as the wait and larger than this share of the
// longest wait. A smaller error could not visibly change the colour.
const VISIBLE = 0.05;

/** The steps as bars; those of which a straggler took longest are marked. Null without steps. */
export function stepChart({ steps, stragglers }, actions) {
  const told = steps.filter(({ meanNs }) => typeof meanNs === "number");
  if (told.length === 0) return null;
  const longest = Math.max(1, ...told.map(({ meanNs }) => meanNs));
  const late = new Set((stragglers?.stragglers ?? []).map(({ worker }) => worker));
  return new CellChart({
    name: `Durations of ${several(told.length, "step")}, from begin to begin`,
    rows: 1,
    columns: told.length,
    rowHeight: STEP_HEIGHT,
    rowName: null,
    scale: [nanoseconds(longest), "0"],
    columnName: (column) => String(told[column].number),
    describe: (row, column) => {
      const { number, meanNs, mostOwnTime, ownNs, workers } = told[column];
      const straggler = late.has(mostOwnTime) ? " (straggler)" : "";
      const mean = workers > 1 ? ` on average of ${several(workers, "worker")}` : "";
      return `Step ${number}: ${nanoseconds(meanNs)}${mean}. ${mostOwnTime}${straggler} was busiest itself: ${nanoseconds(ownNs)}.`;
    },
    go: (row, column) =>
      actions.go({ step: told[column].number, worker: told[column].mostOwnTime ?? "" }),
    say: actions.say,
    paint: (context, row, column, box, color) => {
      const marked = late.has(told[column].mostOwnTime);
      const high = Math.max(1, (box.height - 10) * (told[column].meanNs / longest));
      context.fillStyle = color(marked ? "--late" : "--step");
      context.fillRect(box.x, box.y + box.height - high, box.width, high);
      if (!marked) return;
      // Colour alone would not tell it to everybody.
      context.beginPath();
      context.arc(
        box.x + box.width / 2,
        box.y + box.height - high - 5,
        Math.min(2.5, box.width / 2),
        0,
        2 * Math.PI,
      );
      context.fill();
    },
  });
}

/** {chart, longestNs}: how long each worker waited in each step; null without collectives. */
export function waitChart(map, actions) {
  if (!map || map.workers.length === 0 || map.steps.length === 0) return null;
  const waits = map.waitedNs.flat().filter((ns) => ns !== null);
  const longestNs = Math.max(1, ...waits);
  const isUndecided = (row, column) => {
    const wait = map.waitedNs[row][column];
    const error = map.errorNs[row][column];
    return wait !== null && (error === null || (error >= wait && error > VISIBLE * longestNs));
  };
  const chart = new CellChart({
    name: `Waits of ${several(map.workers.length, "worker")} in ${several(map.steps.length, "step")}`,
    rows: map.workers.length,
    columns: map.steps.length,
    rowHeight: map.workers.length > MANY_WORKERS ? 14 : 22,
    rowName: (row) => map.workers[row],
    columnName: (column) => String(map.steps[column]),
    describe: (row, column) => {
      const undecided = isUndecided(row, column);
      const text = waitText(map.waitedNs[row][column], map.errorNs[row][column], undecided);
      return `${map.workers[row]}, step ${map.steps[column]}: ${text}.`;
    },
    go: (row, column) =>
      actions.go({ step: map.steps[column], worker: map.workers[row], call: true }),
    say: actions.say,
    paint: (context, row, column, box, color) => {
      const wait = map.waitedNs[row][column];
      if (wait === null) return;
      context.fillStyle = color("--face");
      context.fillRect(box.x, box.y, box.width, box.height);
      context.globalAlpha = Math.max(0, Math.min(1, wait / longestNs));
      context.fillStyle = color("--wait");
      context.fillRect(box.x, box.y, box.width, box.height);
      context.globalAlpha = 1;
      if (!isUndecided(row, column)) return;
      context.globalAlpha = 0.35; // How dark the cell is stays to be seen.
      hatch(context, box, color("--text"));
      context.globalAlpha = 1;
    },
  });
  return { chart, longestNs };
}
