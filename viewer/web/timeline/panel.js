// The pane below the timeline: details of an event, sums of a selection, tables. Names come from
// traces, which may be hostile, so they are only ever set as text.
import { copy } from "../shared/browser.js";
import { column, countOf, textOf, timeOf } from "../shared/column.js";
import { compareLink } from "../shared/compare_link.js";
import { element, table } from "../shared/elements.js";
import { amount, count, exact, several, time } from "../shared/format.js";
import { copyRows, Sheet } from "../shared/sheet.js";
import { shortKernel } from "../shared/short_name.js";
import { xprofLink } from "./graph.js";
import { sectionOf } from "./layout.js";

const STACK_ARGS = ["source_stack", "stack", "stack_trace"]; // Arguments that hold a stack trace.
const LONG_KINDS = /\([^)]{20,}\)$/; // What a stream ran, behind its number.
const TIME = /^[\d.,]+ [mµnp]?s$/;
const STEP_HEADS = [
  "Step",
  "First start to last end",
  "Length",
  "First to start",
  "Last to start",
  "Start spread",
  "Last to end",
  "End spread",
  "Time inside, shortest to longest",
];
const NO_STEPS =
  "No steps were recorded. Annotate the training loop with a step number to compare workers step by step.";

const SUM_COLUMNS = [
  { ...textOf("Name", "name"), write: shortKernel },
  textOf("Worker", "worker"),
  countOf("Occurrences", "count"),
  timeOf("Wall duration", "wallPs"),
  timeOf("Self time", "selfPs"),
  timeOf("Average wall duration", ({ wallPs, count: n }) => wallPs / n),
];

export const MAX_COPIED = 10_000; // Events of a list, as many as the server answers.

// Lists stay beside the details of what is chosen from them.
const LISTS = ["found", "table", "compare"];

export class Panel {
  /** `actions`: jump(event), zoomToStep(step), openGraph(hlo), closed(), resized(). */
  constructor(actions) {
    this.actions = actions;
    this.element = document.getElementById("panel");
    this.size = document.getElementById("panel-size");
    this.title = document.getElementById("panel-title");
    this.list = makePart("panel-list");
    this.details = makePart("panel-details");
    document.getElementById("panel-close").onclick = () => {
      this.hide();
      actions.closed();
    };
    this.apart = false; // Whether the selected events of each worker are summed up by themselves.
    this.xprof = ""; // The address of XProf's page, if the server knows it.
  }

  get isOpen() {
    return !this.element.hidden;
  }

  shows(kind) {
    return this.list.kind === kind || this.details.kind === kind;
  }

  /** `kind`: what is shown, for those who hide or replace it. Nodes that are false are left out. */
  show(kind, title, ...nodes) {
    const part = LISTS.includes(kind) ? this.list : this.details;
    part.kind = kind;
    part.title = title;
    part.element.replaceChildren(...nodes.filter(Boolean));
    part.element.scrollTop = 0;
    for (const td of part.element.querySelectorAll("td"))
      if (TIME.test(td.textContent)) td.classList.add("time"); // It is not broken over two lines.
    this.arrange();
  }

  /** Hides what is shown of these kinds; without kinds, everything. */
  hide(...kinds) {
    if (!this.isOpen) return;
    for (const part of [this.list, this.details]) {
      if (kinds.length > 0 && !kinds.includes(part.kind)) continue;
      part.kind = part.title = "";
      part.element.replaceChildren();
    }
    this.arrange();
  }

  arrange() {
    const { list, details } = this;
    this.title.textContent = details.title || list.title;
    // With both, the list's own title tells what the left part is.
    list.element.dataset.title = details.kind ? list.title : "";
    for (const { element, kind } of [list, details]) element.hidden = kind === "";
    this.markChosen();
    const hidden = list.kind === "" && details.kind === "";
    if (this.element.hidden === hidden) return;
    this.element.hidden = this.size.hidden = hidden;
    this.actions.resized(); // The canvas has less or more room now.
  }

  /** Marks the list's entry whose details are shown. */
  markChosen() {
    const chosen = this.details.kind === "event" ? this.details.event : "";
    for (const button of this.list.element.querySelectorAll("[data-event]")) {
      const current = button.dataset.event === chosen;
      if (current) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
      button.closest("tr").classList.toggle("chosen", current);
      if (current) button.closest("tr").scrollIntoView({ block: "nearest" });
    }
  }

  /** Details of an event, as /api/event answers. */
  event(details) {
    this.details.event = keyOf(details);
    // Names that begin with "_" are XLA's own marks, such as those of producers and consumers.
    const args = details.args
      .filter(({ name }) => !name.startsWith("_") && !STACK_ARGS.includes(name))
      .map(({ name, value }) => [name, inOneLine(String(value ?? ""))]);
    const stack = details.args.find(({ name }) => STACK_ARGS.includes(name))?.value;
    const links = [
      ["Parent", details.parent],
      ["XLA module", details.module],
      ["Step", details.step],
      ...details.in.map((event) => ["Launched by", event]),
      ...details.out.map((event) => ["Launches", event]),
    ].filter(([, event]) => event);
    const buttons = links.map(([what, event]) => [what, this.link(event)]);
    const graph = this.graph(details);
    if (graph && this.xprof) buttons.unshift(["In XProf", xprofLink(this.xprof, details)]);
    if (graph) buttons.unshift(["HLO graph", graph]);
    this.show(
      "event",
      details.name,
      table("Event", null, factsOf(details)),
      args.length > 0 && table("Arguments", null, args),
      stack && withCaption("Stack trace", element("pre", String(stack).split(/[\n;]/).join("\n"))),
      ...this.chains(details),
      buttons.length > 0 && table("Links", null, buttons),
      copier(details.name, [...factsOf(details), ...args]),
    );
  }

  /** How the event came to run: its launch, and what was open on the host around it. */
  chains({ chain = [], forward = [], graph = "", captured = [] }) {
    const list = (caption, links) =>
      links.length > 0 &&
      table(
        caption,
        null,
        links.map((link) => [capitalized(link.what), this.link(link)]),
      );
    return [
      list("Launch and call stack", chain),
      graph && element("p", graph, "note"),
      list("How the graph was captured", captured),
      list("Forward operator and its call stack", forward),
    ];
  }

  /** A button that shows the graph of an XLA op's module; or why there is none. */
  graph(details) {
    if (!details.hlo) return null;
    const { instruction, module, held } = details.hlo;
    if (!held)
      return element("span", `The trace does not hold the HLO of ${module || "the module"}.`);
    const button = element("button", `${instruction} in ${module || "its module"}`);
    button.onclick = () => this.actions.openGraph(details.hlo);
    return button;
  }

  /** A button that goes to an event. */
  link(event) {
    const button = element("button", `${event.name}  (${event.line}, ${time(event.durationPs)})`);
    button.onclick = () => this.actions.jump(event);
    return button;
  }

  /** Sums of the selected events, [{name, worker, count, wallPs, selfPs}], some of which may be of one name. */
  selection(title, parts) {
    const apart = this.apart && new Set(parts.map(({ worker }) => worker)).size > 1;
    const sums = sumsBy(apart ? ["name", "worker"] : ["name"], parts);
    const total = (field) => sums.reduce((sum, entry) => sum + entry[field], 0);
    const names = new Set(sums.map(({ name }) => name)).size;
    const events = `${several(total("count"), "event")}, ${several(names, "name")}`;
    const times = `wall ${time(total("wallPs"))}, self ${time(total("selfPs"))}`;
    const columns = SUM_COLUMNS.filter(({ head }) => apart || head !== "Worker");
    const sheet = new Sheet("Selected events", columns, sums, { order: "Self time" });
    const note = element("p", `${events}; ${times} `, "note");
    note.append(
      copyButton(() => sheet.copy("selection")),
      " ",
      this.workersApart(title, parts),
    );
    this.show("selection", title, note, sheet.element);
  }

  /** A button that sums up each worker by itself, or all together again; if there are several. */
  workersApart(title, parts) {
    if (new Set(parts.map(({ worker }) => worker)).size < 2) return "";
    const button = element("button", "By worker", "toggle");
    button.setAttribute("aria-pressed", String(this.apart));
    button.onclick = () => {
      this.apart = !this.apart;
      this.selection(title, parts);
      this.details.element.querySelector(".toggle").focus();
    };
    return button;
  }

  /**
   * Events of a row, or hits of a search: by their start or, if they are `longest`, by duration.
   * list(longest) shows them in another order, more() the next ones, all() resolves to all of them,
   * about which `note` is a sentence; each may be null.
   */
  events(kind, title, description, hits, { longest = false, list, more, all, note = "" }) {
    const because = hits.some((hit) => hit.matched);
    const columns = eventColumns(description);
    const places = columns.slice(3);
    const rows = hits.map((hit) => {
      const button = element("button", shortKernel(hit.name));
      button.title = hit.name;
      button.dataset.event = keyOf(hit);
      button.onclick = () => this.actions.jump(hit);
      return [
        button,
        exact(hit.beginPs),
        exact(hit.durationPs),
        ...places.map(({ of }) => of(hit)),
        ...(because ? [reasonOf(hit)] : []),
      ];
    });
    const next = more && element("p", "", "note");
    if (next) next.append(this.nextButton(more));
    const heads = columns.map(({ head }) => head);
    if (because) heads.push("Matches");
    const node = table(`Events by ${longest ? "duration" : "start time"}`, heads, rows);
    if (list) this.offerOrders(node, longest, list);
    const head = all && element("p", note && `${note} `, "note");
    if (all) head.append(copyButton(async () => copyRows(columns, await all(), "events")));
    this.show(kind, title, head, node, next);
  }

  nextButton(more) {
    const button = element("button", "Next events");
    button.onclick = () => this.renew(more, "tbody button");
    return button;
  }

  /** Lets the heads of a list's times ask for its events in their order. */
  offerOrders(node, longest, list) {
    const [, start, duration] = node.tHead.rows[0].cells;
    const offer = (th, wanted, title, order) => {
      const button = element("button", th.textContent);
      button.title = title;
      button.onclick = () => this.renew(() => list(wanted), "th[aria-sort] button");
      if (wanted === longest) th.setAttribute("aria-sort", order);
      th.replaceChildren(button);
    };
    offer(start, false, "By start time, from what is in sight on", "ascending");
    offer(duration, true, "The longest first, wherever they begin", "descending");
  }

  /** Shows another list because of a button that goes with the old one; the focus goes to a new one. */
  async renew(show, button) {
    await show();
    this.list.element.querySelector(button)?.focus();
  }

  /** All workers side by side; `compared` as /api/steps answers. */
  compare({ run, workers }, compared) {
    const nodes = [workerTable(workers), comparer(run, workers)];
    const { steps } = compared;
    if (steps.length > 0)
      nodes.push(element("p", summaryOf(compared), "note"), this.stepTable(workers, steps));
    else nodes.push(element("p", NO_STEPS, "note"));
    this.show("compare", "Workers and steps", ...nodes);
  }

  stepTable(workers, steps) {
    const lengthOf = ({ beginPs, endPs }) => endPs - beginPs;
    const longest = Math.max(1, ...steps.map(lengthOf));
    const rows = steps.map((step) => {
      const button = element("button", `${step.name} ${step.number}`);
      button.onclick = () => this.actions.zoomToStep(step);
      const bar = element("span", "", "bar");
      bar.style.width = `${Math.round((120 * lengthOf(step)) / longest)}px`;
      bar.title = time(lengthOf(step));
      const lengths = step.workers.map(lengthOf).sort((a, b) => a - b);
      return [
        button,
        time(lengthOf(step)),
        bar,
        workers[step.firstToBegin].name,
        workers[step.lastToBegin].name,
        time(step.beginSpreadPs),
        workers[step.lastToEnd].name,
        time(step.endSpreadPs),
        `${time(lengths[0])} to ${time(lengths.at(-1))}`,
      ];
    });
    return table("Steps", STEP_HEADS, rows);
  }
}

/** A part of the pane, {element, kind, title}: it scrolls by itself, and is empty at first. */
function makePart(id) {
  return { element: document.getElementById(id), kind: "", title: "" };
}

/** Text that tells an event from all others; the server reads it, too. */
export function keyOf({ row, track, ordinal }) {
  return `${row}:${track}:${ordinal}`;
}

/** Sums of those that are equal in these fields. */
function sumsBy(fields, parts) {
  const sums = new Map();
  for (const part of parts) {
    const key = JSON.stringify(fields.map((field) => part[field]));
    const sum = sums.get(key) ?? { ...part, count: 0, wallPs: 0, selfPs: 0 };
    for (const field of ["count", "wallPs", "selfPs"]) sum[field] += part[field];
    sums.set(key, sum);
  }
  return [...sums.values()];
}

/** The columns of a list of events, which the server has found. */
function eventColumns({ rows, workers }) {
  return [
    textOf("Name", "name"),
    timeOf("Start", "beginPs"),
    timeOf("Duration", "durationPs"),
    column("Row", ({ row }) => rows[row].name.replace(LONG_KINDS, "")),
    column("Section", ({ row }) => sectionOf(rows[row])),
    column("Worker", ({ worker }) => workers[worker].name),
  ];
}

/** What of a hit matches, if it is not the name. */
function reasonOf({ matched }) {
  return matched ? `${matched.name}: ${matched.value}` : "the name";
}

/** [name, text] of what is known of every event. */
function factsOf(details) {
  const facts = [
    ["Start", exact(details.beginPs)],
    ["Duration", exact(details.durationPs)],
    ["Self time", exact(details.selfPs)],
    ["Row", details.line],
    ["Section", sectionOf(details)],
    ["Worker", details.worker],
  ];
  const seconds = details.durationPs / 1e12;
  const value = (name) => Number(details.args.find((arg) => arg.name === name)?.value);
  const addRate = (name, number, unit) => {
    if (!(number > 0)) return; // Also when the event has no such argument: then it is NaN.
    const rate = seconds > 0 ? `, ${amount(number / seconds, unit)}` : "";
    facts.push([name, `${count(number)}${rate}`]);
  };
  addRate("FLOPS", value("model_flops") || value("flops"), "FLOP/s");
  addRate("Bytes accessed", value("bytes_accessed"), "B/s");
  if (details.longName) facts.push(["Full name", details.longName]);
  return facts;
}

/** A value as JSON may be spread over several lines, which takes much room and tells nothing. */
function inOneLine(value) {
  if (!/^\s*[[{]/.test(value)) return value;
  return value
    .replace(/\s*\n\s*/g, " ")
    .replace(/([[{]) /g, "$1")
    .replace(/ ([\]}])/g, "$1");
}

/** Two lists of workers and a button that compares what is chosen; for one worker, only with others. */
function comparer(run, workers) {
  const names = workers.map(({ name }) => name);
  const lists = ["Compare", " with"].map((text, i) => {
    const list = element("select");
    list.setAttribute("aria-label", `${text.trim()} worker`);
    list.append(...names.map((name) => new Option(name, name)));
    list.selectedIndex = Math.min(i, names.length - 1);
    return [`${text} `, list];
  });
  const button = element("button", names.length > 1 ? "Compare" : "Compare with another run");
  button.onclick = () => {
    const [a, b] = lists.map(([, list]) => ({ run, worker: names.length > 1 ? list.value : "" }));
    location.assign(compareLink(a, b));
  };
  const line = element("p", "", "note");
  line.append(...(names.length > 1 ? lists.flat() : []), " ", button);
  return line;
}

function workerTable(workers) {
  const rows = workers.map((worker) => {
    const { name, events, shiftPs, clockOffsetNs, clockErrorNs } = worker;
    const offset = `${time(clockOffsetNs * 1e3)} ± ${time(clockErrorNs * 1e3)}`;
    return [
      name,
      count(events),
      shiftPs === 0 ? "first" : `${time(shiftPs)} after the first`,
      clockErrorNs === null ? "not measured" : offset,
      [...worker.clockProblems, ...worker.problems].join("\n"),
    ];
  });
  const heads = ["Worker", "Events", "Starts", "Clock offset", "Problems"];
  return table("Workers on one clock", heads, rows);
}

/** How long workers were inside of their steps, which is not how long one follows the other. */
function summaryOf({ count: all, times, steps }) {
  const names = new Set(steps.map(({ name }) => name));
  const inside = names.size === 1 ? `Time inside “${[...names][0]}”` : "Time inside a step";
  const middle = `median ${time(times.medianPs)}, p95 ${time(times.p95Ps)}`;
  const ends = `shortest ${time(times.leastPs)}, longest ${time(times.mostPs)}`;
  const listed = steps.length < all ? ` The ${count(steps.length)} longest are listed.` : "";
  return `${count(all)} steps. ${inside}: ${middle}, ${ends}.${listed}`;
}

/** A button that copies what is known of an event as text. */
function copier(name, facts) {
  const button = element("button", "Copy as text");
  button.onclick = async () => {
    const lines = [name, ...facts.map((fact) => fact.join(": "))];
    const copied = await copy(`${lines.join("\n")}\n`, "event.txt");
    button.textContent = copied ? "Copied" : "Saved as a file";
  };
  return button;
}

/** A button that calls copyAll(), and shows what that tells it has done. */
function copyButton(copyAll) {
  const button = element("button", "Copy as CSV");
  button.onclick = async () => {
    button.disabled = true; // The events may be long in coming.
    button.textContent = capitalized(await copyAll().catch(({ message }) => message));
    button.disabled = false;
  };
  return button;
}

function capitalized(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

function withCaption(caption, node) {
  const box = document.createElement("div");
  const head = element("p", caption);
  head.style.fontWeight = "600";
  head.style.margin = "0 0 4px";
  box.append(head, node);
  return box;
}
