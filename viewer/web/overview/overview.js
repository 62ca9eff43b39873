// The overview of a run: what its report says, or the verdict on a job that stood still. Names come
// from traces and from report.json, which may be hostile, so they are only ever set as text.
import { element, legend, listOf, scrolled, table } from "../shared/elements.js";
import { shortKernel } from "../shared/short_name.js";
import { adviceOf, engineTables, parallelTables, placeOf } from "./answers.js";
import { stepChart, waitChart } from "./charts.js";
import { stallOf } from "./stall.js";
import {
  causesOf,
  heldUpBy,
  howOften,
  lossOf,
  nanoseconds,
  number,
  percent,
  several,
  verdictOf,
  within,
} from "./words.js";

// The parts of a worker's time, each with the colour of its class.
const PARTS = [
  ["compute", "Compute"],
  ["communication", "Exposed communication"],
  ["copies", "Exposed copies"],
  ["input", "Waiting for input"],
  ["collection", "Garbage collection"],
  ["host", "Waiting for launches (host-bound)"],
  ["idle", "Other idle"],
];

const EXPOSED = /^exposed (?!copies)/; // What the advice about communication begins with.

export class Overview {
  /** `answer`: of /api/report. `actions`: go(place), linkTo(place), say(text). */
  constructor(section, answer, actions) {
    this.actions = actions;
    this.charts = [];
    const { report, evidence } = answer;
    section.replaceChildren(...(evidence ? stallOf(evidence) : this.about(answer)));
    if (!report) return;
    if (report.roles) {
      const roles = report.roles.map((role) => this.role(role));
      section.append(this.headline(report), ...roles, ...unknownOf(report));
    } else {
      section.append(...this.parts(report));
    }
  }

  /** What a report of workers that are compared with one another says. */
  parts(report) {
    const { stragglers } = report;
    return [
      this.headline(report),
      ...noteOf(stragglers),
      this.figures(report),
      ...this.iterations(report.engine),
      ...adviceOf(stragglers, (text, place) => this.link(text, place)),
      ...this.lateWorkers(stragglers),
      ...this.times(report, stragglers?.stragglers ?? []),
      ...this.steps(report),
      ...this.waits(stragglers),
      ...this.parallelism(stragglers),
      ...this.operations(report),
      ...unknownOf(report),
    ];
  }

  /** The report of one role, such as prefill, which can be folded away. */
  role(report) {
    const part = element("details", "", "role");
    part.open = true;
    // A chart that was not shown has no size.
    part.ontoggle = () => this.draw();
    part.append(
      element("summary", [report.role, report.group].filter(Boolean).join(", ") || "other workers"),
      ...this.parts(report),
    );
    return part;
  }

  /** The answer, which leads to the step in which the worker that it names was latest. */
  headline({ headline, stragglers }) {
    const text = headline ?? "The report has no headline.";
    const [late] = [...(stragglers?.stragglers ?? []), ...(stragglers?.notDecided ?? [])];
    const [advice] = stragglers?.advice ?? [];
    const node = element("h2", "", "headline");
    if (late?.worker) node.append(this.link(text, placeOf(late.worker, late.latestStep)));
    else if (advice && stragglers?.workers === 1)
      node.append(this.link(text, placeOf(advice.worker, advice.step)));
    else node.textContent = text;
    return node;
  }

  parallelism(stragglers) {
    const tables = parallelTables(stragglers);
    if (tables.length === 0) return [];
    return [head("Parallelism"), ...tables.map(scrolled)];
  }

  /** What a server's engine did. */
  iterations(engine) {
    const tables = engineTables(engine);
    if (tables.length === 0) return [];
    return [head("Iterations"), ...tables.map(scrolled)];
  }

  draw() {
    for (const chart of this.charts) chart.draw();
  }

  /** Where the report comes from, and what is wrong with it. */
  about({ state, problem, why, report }) {
    const nodes = [];
    if (problem) nodes.push(element("p", problem, "note problem"));
    const origin =
      state === "stored"
        ? "The report that was stored with the capture."
        : "Computed from the traces now: this run has no stored report that can be shown.";
    nodes.push(element("p", report ? origin : `There is no report: ${why}.`, "note"));
    return nodes;
  }

  /** A link to a place in the timeline. */
  link(text, place, className = "") {
    const link = element("a", text, className);
    link.href = this.actions.linkTo(place);
    link.onclick = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      this.actions.go(place);
    };
    return link;
  }

  /** A further link of a table's row to the row's place. Tab skips it, because the first one leads there too. */
  also(text, place) {
    const link = this.link(text, place, "also");
    link.tabIndex = -1;
    return text ? link : "";
  }

  worker(name) {
    return name ? this.link(name, { worker: name }) : "";
  }

  figures(report) {
    const { figures, stragglers } = report;
    const step = figures?.stepSeconds;
    const loss = lossOf(report);
    const late = stragglers?.stragglers?.[0];
    const compared = several(stragglers?.steps, "step");
    const missing = report.missingWorkers > 0 ? `${number(report.missingWorkers)} are missing` : "";
    const slow = stragglers?.slowdown;
    const whole = { tab: "timeline" };
    const exposed = stragglers?.advice?.find(({ what }) => EXPOSED.test(what ?? ""));
    const period = [
      "Step period",
      nanoseconds(typeof step === "number" ? step * 1e9 : null),
      stragglers?.steps === 0
        ? "no steps were recorded"
        : `mean of ${compared}, from begin to begin`,
      longestStep(report) ?? whole,
    ];
    const communication = [
      "Exposed communication",
      percent(figures?.exposedCommunicationRatio),
      "of the recorded time",
      exposed ? placeOf(exposed.worker, exposed.step) : whole,
    ];
    const lost = [
      "Lost to stragglers",
      loss.value,
      loss.note,
      late ? placeOf(late.worker, late.latestStep) : whole,
    ];
    const share = busyShare(report.workers);
    const part =
      report.workersMore > 0 ? "of the time of the workers below" : "of the recorded time";
    const busy = share === null ? [] : [["Devices busy", percent(share), part, whole]];
    const workers = ["Workers compared", number(stragglers?.workers), missing, whole];
    const facts = isAlone(report)
      ? [period, communication] // The headline says how busy its devices were.
      : [period, lost, communication, ...busy, workers];
    if (typeof slow === "number" && stragglers.workers > 1)
      facts.push([
        "Slower by",
        percent(Math.max(0, slow - 1)),
        "than if all workers took the average",
        whole,
      ]);
    const list = element("dl", "", "figures");
    for (const [name, value, note, place] of facts) {
      const box = document.createElement("div");
      const dd = document.createElement("dd");
      dd.append(this.link(value, place), element("span", note, "soft"));
      box.append(element("dt", name), dd);
      list.append(box);
    }
    return list;
  }

  lateWorkers(stragglers) {
    const late = [...(stragglers?.stragglers ?? []), ...(stragglers?.notDecided ?? [])];
    if (late.length === 0) return [];
    const rows = late.map((entry) => {
      const place = entry.worker ? { worker: entry.worker } : { tab: "timeline" };
      return [
        this.worker(entry.worker),
        verdictOf(entry),
        this.also(within(entry.longerNs, entry.errorNs), place),
        this.also(howOften(entry), place),
        this.also(causesOf(entry), place),
        this.also(heldUpBy(entry.heldUp), place),
      ];
    });
    const heads = [
      "Worker",
      "What is known",
      "Longer a step",
      "Late in",
      "Cause",
      "Holds up others by",
    ];
    return [
      head("Workers that take longer than the others"),
      scrolled(table("Late workers", heads, rows, [2, 5])),
      ...more(stragglers.late - late.length, "late workers"),
    ];
  }

  times(report, late) {
    const { workers, workersMore } = report;
    if (workers.length === 0) return [];
    const waits = ({ worker, waitedNs, madeWaitNs }) =>
      [waitedNs, madeWaitNs].map((ns) => this.also(nanoseconds(ns), { worker: worker ?? "" }));
    const alone = isAlone(report);
    const rows = workers.map((worker) => [
      this.worker(worker.worker),
      this.bar(worker),
      ...(alone ? [] : waits(worker)),
    ]);
    const heads = ["Worker", "Time of its devices"];
    if (!alone) heads.push("Waited", "Made others wait");
    const times = table("Where the time went", heads, rows, [2, 3]);
    times.classList.add("times");
    const names = new Set(late.map(({ worker }) => worker));
    workers.forEach(({ worker }, i) => {
      if (names.has(worker)) times.tBodies[0].rows[i].classList.add("late");
    });
    const order = workersMore > 0 ? "Those by which others lost most time" : "";
    return [
      head("Where the time went"),
      legend(PARTS.filter(([part]) => workers.some((worker) => partsOf(worker)?.[part] > 0))),
      scrolled(times),
      ...more(workersMore, "workers", order),
    ];
  }

  bar(worker) {
    const parts = partsOf(worker);
    if (!parts) return element("span", "Not in this trace.", "soft");
    const told = PARTS.filter(([part]) => parts[part] > 0);
    const text = told.map(([part, name]) => `${name}: ${percent(parts[part])}`).join(", ");
    const link = this.link("", { worker: worker.worker ?? "" }, "parts");
    link.title = text;
    link.setAttribute("aria-label", `${worker.worker}: ${text}`);
    for (const [part] of told) {
      const piece = element("span", "", part);
      piece.style.width = `${100 * parts[part]}%`;
      link.append(piece);
    }
    return link;
  }

  steps(report) {
    const chart = stepChart(report, this.actions);
    if (!chart) return [];
    this.charts.push(chart);
    const any = (report.stragglers?.stragglers ?? []).length > 0;
    return [
      head("Steps: how long each took, by its number"),
      any && legend([["late", "A straggler took longest (with a dot)"]]),
      chart.element,
      ...more(report.stepsMore, "steps"),
    ].filter(Boolean);
  }

  waits(stragglers) {
    const nodes = [];
    const map = stragglers?.waitMap;
    const made = waitChart(map, this.actions);
    if (made) {
      this.charts.push(made.chart);
      nodes.push(
        legend([
          ["none", "Did not wait"],
          ["wait", `Waited ${nanoseconds(made.longestNs)}`],
          ["undecided", "Not decidable: the clocks are not known well enough"],
        ]),
        made.chart.element,
        ...more(map.workersLeftOut, "workers", "Those that lost most time"),
        ...more(map.stepsLeftOut, "steps", "Those with the longest waits"),
      );
    }
    const calls = stragglers?.collectives ?? [];
    if (calls.length > 0) nodes.push(...this.collectives(calls, stragglers.collectivesMore));
    return nodes.length > 0 ? [head("Who waited at collectives"), ...nodes] : [];
  }

  collectives(calls, left) {
    const rows = calls.map((call) => {
      const place = { find: searched(call.name ?? "") };
      return [
        this.link(call.name ?? "", place),
        call.communicator ?? "",
        this.also(number(call.calls), place),
        this.also(nanoseconds(call.waitedNs), place),
        call.mostOftenLast ? this.worker(call.mostOftenLast) : "not decidable",
        call.mostOftenLast
          ? this.also(`${number(call.timesLast)} of ${number(call.calls)}`, place)
          : "",
        this.also(number(call.undecided), place),
      ];
    });
    const heads = [
      "Collective",
      "Communicator",
      "Calls",
      "All waits",
      "Most often last",
      "Times last",
      "Not decidable",
    ];
    return [
      scrolled(table("Collectives", heads, rows, [2, 3, 5, 6])),
      ...more(left, "collectives"),
    ];
  }

  operations({ ops, opsMore, opsOfDevices }) {
    if (ops.length === 0) return [];
    const most = Math.max(1, ...ops.map(({ selfNs }) => selfNs ?? 0));
    const rows = ops.map((op) => {
      const place = { find: op.name ?? "" };
      const bar = element("span", "", "bar");
      bar.style.width = `${Math.max(0, Math.round((80 * (op.selfNs ?? 0)) / most))}px`;
      const time = element("span", "", "barred");
      time.append(bar, this.also(nanoseconds(op.selfNs), place));
      const link = this.link(shortKernel(op.name ?? ""), place);
      link.title = op.name ?? "";
      return [
        link,
        op.kind ?? "",
        this.also(number(op.count), place),
        time,
        this.also(number(op.workers), place),
      ];
    });
    const heads = ["Operation", "Kind", "Count", "Self time", "Workers"];
    return [
      head(`Operations with the most ${opsOfDevices ? "device" : "self"} time`),
      scrolled(table("Operations", heads, rows, [2, 3, 4])),
      ...more(opsMore, "operations"),
    ];
  }
}

/** Whether there is nobody to compare the only worker with. */
function isAlone({ workers, missingWorkers, stragglers }) {
  return workers.length === 1 && stragglers?.workers === 1 && !missingWorkers;
}

/** The part of a collective's name that its events have; the report numbers the calls of a step. */
function searched(name) {
  return name.replace(/ #\d+$/, "");
}

/** How sure the headline is, where that is not sure enough for metrics. */
function noteOf(stragglers) {
  if (!stragglers?.likely || !stragglers.stragglers?.length) return [];
  const text =
    "Likely: the profile has too few steps to be sure. About 1 of 100 jobs without a straggler gets such an answer.";
  return [element("p", text, "note")];
}

function head(text) {
  return element("h3", text);
}

/** The place of the step that took longest; null without steps. */
function longestStep({ steps }) {
  const told = steps.filter(({ meanNs }) => typeof meanNs === "number");
  if (told.length === 0) return null;
  const longest = told.reduce((a, b) => (b.meanNs > a.meanNs ? b : a));
  return placeOf(longest.mostOwnTime, longest.number);
}

function more(left, what, order = "") {
  if (!(left > 0)) return [];
  const text = `and ${number(left)} more ${what}`;
  return [element("p", order ? `${order}, ${text}.` : `${text}.`, "note")];
}

/** Shares of a worker's time by part; null if the trace does not tell it. */
function partsOf({ time, hostTime }) {
  const span = time?.spanNs;
  if (!(span > 0)) return null;
  const share = (ns) => Math.max(0, Math.min(1, (ns ?? 0) / span));
  const parts = {
    compute: share(time.computeNs),
    communication: share(time.exposedCommunicationNs),
    copies: share(time.exposedCopiesNs),
    input: share(hostTime?.inputStallNs),
    collection: share(hostTime?.garbageCollectionNs),
    host: share(hostTime?.hostBoundNs),
  };
  const idle = share(time.idleNs) - parts.input - parts.collection - parts.host;
  return { ...parts, idle: Math.max(0, idle) };
}

/** The share of their time in which devices worked; null if no worker tells it. */
function busyShare(workers) {
  const told = workers.filter(({ time, hostDevice }) => time?.spanNs > 0 && !hostDevice);
  const span = told.reduce((sum, { time }) => sum + time.spanNs, 0);
  const idle = told.reduce((sum, { time }) => sum + (time.idleNs ?? 0), 0);
  return span > 0 ? Math.max(0, 1 - idle / span) : null;
}

/** What the report says cannot be known, and the workers that are not in it. */
function unknownOf({ stragglers, missing, missingWorkers }) {
  const sentences = [...(stragglers?.unknown ?? [])];
  for (const { worker, why } of missing) sentences.push(`${worker} is missing: ${why}`);
  const left = (missingWorkers ?? 0) - missing.length;
  if (sentences.length === 0 && !(left > 0)) return [];
  return [head("What is not known"), listOf(sentences), ...more(left, "missing workers")];
}
