// The page that compares two runs, or two workers of one: A, and B beside it.
import { Api } from "../shared/api.js";
import { compareLink } from "../shared/compare_link.js";
import { element, legend } from "../shared/elements.js";
import { count, several } from "../shared/format.js";
import { Sheet } from "../shared/sheet.js";
import { followTheme } from "../shared/browser.js";
import { KINDS_OF_WORK } from "../timeline/coloring.js";
import {
  COMPARED,
  headline,
  mainLoop,
  nameColumns,
  pairRows,
  pairSteps,
  PART_COLUMNS,
  partsOf,
  STEP_COLUMNS,
  stepsRun,
} from "./difference.js";
import { Lanes } from "./lanes.js";

const ALL = ""; // All workers, in the lists of them.
const BEGIN = "begin"; // The zero at which recordings begin.
const LETTERS = ["A", "B"];

const $ = (id) => document.getElementById(id);

const lanes = new Lanes([$("lane-a"), $("lane-b")], fail);
const opened = new Map(); // By name of a run: resolves to {api, description}.
let fields = []; // A and B: {run, worker}, both lists.
let latest = 0; // The number of the latest comparison; answers for older ones are dropped.
let shown = null; // What is compared: {sides, steps, sheet}.
let lit = null; // The name that is highlighted.

// ---- What is compared -----------------------------------------------------------------------------

/** The {run, worker} of A and of B that the page's address names. */
function linked() {
  const hash = new URLSearchParams(location.hash.slice(1));
  return ["a", "b"].map((side) => ({
    run: hash.get(side) ?? "",
    worker: hash.get(`w${side}`) ?? "",
  }));
}

function chosen() {
  return fields.map(({ run, worker }) => ({ run: run.value, worker: worker.value }));
}

/** The lists of a side's runs and workers. */
function fieldsOf(box, letter, runs, { run, worker }) {
  const lists = { run: element("select"), worker: element("select") };
  lists.run.setAttribute("aria-label", `Run of ${letter}`);
  lists.worker.setAttribute("aria-label", `Worker of ${letter}`);
  const names = run && !runs.includes(run) ? [run, ...runs] : runs;
  lists.run.append(...names.map((name) => new Option(name, name, false, name === run)));
  lists.worker.append(new Option(worker || "All workers", worker, true, true));
  lists.run.onchange = () => {
    lists.worker.value = ALL;
    compare();
  };
  lists.worker.onchange = compare;
  box.replaceChildren(element("b", letter), lists.run, lists.worker);
  return lists;
}

/** Names the workers of a run in a list, and returns the number of the chosen one; null for all. */
function fillWorkers(list, wanted, { workers }) {
  const names = workers.map(({ name }) => name);
  const number = names.indexOf(wanted);
  list.replaceChildren(
    new Option(`All ${several(names.length, "worker")}`, ALL),
    ...names.map((name) => new Option(name, name)),
  );
  list.hidden = names.length < 2;
  list.value = number < 0 ? ALL : wanted;
  return number < 0 ? null : number;
}

/** {api, description} of a run once the server has read it. */
function open(name) {
  if (!opened.has(name)) {
    const reading = read(name);
    reading.catch(() => opened.delete(name)); // So that it is tried again.
    opened.set(name, reading);
  }
  return opened.get(name);
}

async function read(name) {
  const api = new Api(name);
  for (;;) {
    const answer = await api.get("run"); // The server waits a moment before it says "loading".
    if (!answer.loading) {
      api.run = answer.run;
      api.version = answer.version;
      return { api, description: answer };
    }
    const { done, total } = answer;
    tell(
      total ? `Reading ${count(total)} events, ${Math.round((100 * done) / total)} %` : "Reading…",
    );
  }
}

function ask({ api, worker }, table) {
  return api.get("table", worker === null ? { table } : { table, worker });
}

/** Shows how A and B differ, as they are chosen. */
async function compare() {
  const number = ++latest;
  const choice = chosen();
  history.replaceState(null, "", compareLink(...choice));
  $("answer").hidden = true;
  tell("Reading the runs…");
  try {
    const runs = await Promise.all(choice.map(({ run }) => open(run)));
    if (number !== latest) return;
    const sides = runs.map(({ api, description }, i) => {
      const worker = fillWorkers(fields[i].worker, choice[i].worker, description);
      return { api, description, worker, title: worker === null ? api.run : choice[i].worker };
    });
    tell("Computing the tables…");
    const [a, b] = await Promise.all(sides.map((side) => ask(side, "steps")));
    if (number !== latest) return;
    shown = { sides, steps: [mainLoop(a.rows), mainLoop(b.rows)], sheet: null };
    await showNames();
    if (number === latest) show();
  } catch (error) {
    if (number === latest) fail(error);
  }
}

// ---- What differs ---------------------------------------------------------------------------------

function show() {
  const { sides, steps } = shown;
  const parts = partsOf(...steps);
  tell(
    headline(
      parts,
      steps.map(({ length }) => length),
    ),
  );
  $("answer").hidden = false;
  $("parts").replaceChildren(
    parts.length > 0
      ? new Sheet("Where the time of a step went", PART_COLUMNS, parts, { order: "Difference" })
          .element
      : element("p", "At least one side has no steps.", "note"),
  );
  const pairs = pairSteps(...steps);
  $("steps").replaceChildren(
    pairs.length > 0
      ? new Sheet("Steps", STEP_COLUMNS, pairs, { order: "Step", up: true, lead: alignTo }).element
      : element("p", "There are no steps that both sides have.", "note"),
  );
  lanes.show(sides);
  fillZeros(pairs);
  lanes.setTheme(document.documentElement.dataset.theme);
  highlight(null);
}

/** The zeros to choose from: the begins of the recordings, and the steps that both sides have. */
function fillZeros(pairs) {
  const [a, b] = shown.sides;
  const clock = a.api.run === b.api.run;
  $("zero").replaceChildren(
    new Option(clock ? "the same moment" : "the begin of the recording", BEGIN),
    ...pairs.map(({ label }, i) => new Option(`the begin of step ${label}`, String(i))),
  );
  shown.pairs = pairs;
  // Workers of a run are on one clock already; the first step of a recording is seldom whole.
  $("zero").value = clock || pairs.length === 0 ? BEGIN : String(Math.min(1, pairs.length - 1));
  align();
}

function align() {
  const { sides, pairs } = shown;
  if ($("zero").value === BEGIN) {
    const begins = sides.map(({ description }) => description.beginPs);
    return lanes.align(begins);
  }
  const { steps } = pairs[Number($("zero").value)];
  lanes.align(
    steps.map(({ beginPs }) => beginPs),
    Math.max(...steps.map(({ totalPs }) => totalPs)),
  );
}

function alignTo(pair) {
  $("zero").value = String(shown.pairs.indexOf(pair));
  align();
  $("lanes").scrollIntoView({ block: "nearest" });
}

/** Shows the chosen table's rows by their difference. */
async function showNames() {
  const comparison = shown;
  const table = $("table").value;
  const { key, what } = COMPARED[table];
  const [a, b] = await Promise.all(comparison.sides.map((side) => ask(side, table)));
  if (comparison !== shown || table !== $("table").value) return;
  const runs = comparison.steps.map(stepsRun);
  const byStep = runs.every((number) => number > 0);
  const units = byStep ? runs : [1, 1];
  const rows = pairRows(a.rows, b.rows, key, units);
  const left = a.leftOut + b.leftOut;
  $("unit").textContent = [
    byStep
      ? `The ${what} and the count of the whole recording, divided by its steps.`
      : `The ${what} and the count of the whole recording.`,
    "A name marks its events in both timelines.",
    left > 0 ? `${several(left, "name")} with less time left out.` : "",
  ].join(" ");
  const sheet = new Sheet(COMPARED[table].title, nameColumns(table), rows, {
    order: "Difference",
    lead: ({ name }) => highlight(name === lit ? null : name),
    changed: () => tellRows(rows.length),
  });
  comparison.sheet = sheet;
  $("names").replaceChildren(
    rows.length > 0 ? sheet.element : element("p", "Neither side has any.", "note"),
  );
  $("copy").disabled = rows.length === 0;
  sheet.filter($("filter").value);
}

function tellRows(all) {
  const kept = shown.sheet?.rows.length ?? all;
  const rows = several(all, "row");
  $("rows").textContent = kept < all ? `${count(kept)} of ${rows}` : rows;
}

/** Draws all events but those of this name pale, in both timelines; null: none. */
function highlight(name) {
  lit = name;
  lanes.highlight(name === null ? null : matching(name));
  if (name !== null) $("lanes").scrollIntoView({ block: "nearest" });
}

/** Tables sum steps under one name, and leave out the arguments of a collective's kernels. */
function matching(name) {
  const begin = name === "ProfilerStep*" ? "ProfilerStep#" : `${name}(`;
  return (other) => other === name || other.startsWith(begin);
}

async function copyNames() {
  $("rows").textContent = await shown.sheet.copy("differences");
}

// ---- The page -------------------------------------------------------------------------------------

function tell(text) {
  $("headline").className = "headline";
  $("headline").textContent = text;
}

function fail(error) {
  $("headline").className = "headline problem";
  $("headline").textContent = error.message ?? String(error);
}

function swap() {
  const [a, b] = chosen();
  location.hash = compareLink(b, a).split("#")[1]; // The page begins anew.
}

async function start() {
  followTheme($("theme"), (theme) => lanes.setTheme(theme));
  $("table").append(
    ...Object.entries(COMPARED).map(([name, { title }]) => new Option(title, name)),
  );
  const { runs, hasList } = await new Api("").get("runs");
  $("list").hidden = !hasList;
  legend(Object.entries(KINDS_OF_WORK), $("kinds"));
  const sides = linked();
  fields = sides.map((side, i) =>
    fieldsOf($(`side-${LETTERS[i].toLowerCase()}`), LETTERS[i], runs, side),
  );
  await compare();
}

$("zero").onchange = align;
$("table").onchange = () => showNames().catch(fail);
$("filter").oninput = () => shown?.sheet?.filter($("filter").value);
$("copy").onclick = copyNames;
$("swap").onclick = swap;
addEventListener("resize", () => lanes.resize());
addEventListener("hashchange", () => location.reload());

// For tests.
globalThis.strobe = {
  get lanes() {
    return lanes.state;
  },
};

start().catch(fail);
