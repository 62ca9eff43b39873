// What the colours of events tell: the kind of work, as in the overview, the name, or the step.
// The renderer asks for each name and, by steps, for each event.
import { legend } from "../shared/elements.js";
import { keep, recall } from "../shared/browser.js";
import { colorOf, colorOfStep, styleColor } from "./colors.js";

const KEPT = "colors"; // Name in the browser's storage.
/** The kinds of work, each with what readers call it. */
export const KINDS_OF_WORK = {
  compute: "Compute",
  communication: "Communication",
  copies: "Copies",
  input: "Input",
  collection: "Garbage collection",
};
const KINDS = Object.keys(KINDS_OF_WORK);
const OUTSIDE = [128, 134, 142]; // For what runs in no step; between both themes' backgrounds.

export class Coloring {
  /**
   * `choice`: {list, legend, notices}: where the user chooses, where the colours of kinds are
   * explained, and who tells problems. Without one, the kind tells.
   */
  constructor(view, choice = null) {
    this.view = view;
    this.choice = choice;
    this.kinds = null; // {rows, device, host}: a set, and maps from names to kinds.
    this.steps = null; // By worker: {begins, numbers} of its steps, in the order of time.
    this.run = null; // The run that these are of.
    this.colors = new Map(); // By kind, once they are needed: the page's style is complete then.
    this.mode = "kind";
    view.renderer.coloring = this;
    if (!choice) return;
    const { list } = choice;
    const kept = recall(KEPT);
    this.mode = list.value = ["kind", "name", "step"].includes(kept) ? kept : "kind";
    list.onchange = () => {
      this.mode = list.value;
      keep(KEPT, this.mode);
      this.apply();
    };
  }

  /** Learns the kinds of a run's events. */
  async open(run) {
    this.run = run;
    this.kinds = this.steps = null;
    this.apply();
    const kinds = await run.api.get("kinds").catch(() => null); // Without them, names tell.
    if (run !== this.run || !kinds) return;
    this.kinds = {
      rows: new Set(kinds.rows),
      device: byName(kinds.device),
      host: byName(kinds.host),
    };
    if (this.mode === "kind") this.apply(); // Other modes do not look at them.
  }

  apply() {
    if (this.mode === "step" && this.run && !this.steps) this.learnSteps();
    this.explain();
    this.view.renderer.recolor();
    this.view.redraw();
  }

  async learnSteps() {
    const { run } = this;
    try {
      const { steps } = await run.api.once("steps");
      if (run !== this.run) return;
      if (steps.length === 0) this.choice.notices.tell("No steps were recorded to colour by.");
      this.steps = stepsByWorker(run.description.workers.length, steps);
      this.apply();
    } catch (error) {
      if (run === this.run) this.choice.notices.tell(error.message);
    }
  }

  /** Names the colours of the kinds that the run has. */
  explain() {
    if (!this.choice) return;
    const { legend: node } = this.choice;
    node.hidden = this.mode !== "kind" || !this.kinds || this.kinds.rows.size === 0;
    if (node.hidden) return;
    const told = new Set([...this.kinds.device.values(), ...this.kinds.host.values(), "compute"]);
    const parts = Object.entries(KINDS_OF_WORK).filter(([kind]) => told.has(kind));
    legend(parts, node);
  }

  get ready() {
    return this.mode === "name" || (this.mode === "step" ? this.steps : this.kinds) !== null;
  }

  // ---- For the renderer -------------------------------------------------------------------------

  /** Whether an event's time decides, and not its name alone. */
  get byTime() {
    return this.mode === "step" && this.steps !== null;
  }

  /** The colour of a name on a row. */
  ofName(row, name) {
    if (this.mode !== "kind" || !this.kinds) return colorOf(name);
    const kind = this.kinds.rows.has(row)
      ? (this.kinds.device.get(name) ?? "compute")
      : this.kinds.host.get(name);
    return kind ? this.ofKind(kind) : colorOf(name);
  }

  ofKind(kind) {
    if (!this.colors.has(kind)) this.colors.set(kind, styleColor(`--${kind}`));
    return this.colors.get(kind);
  }

  /** The colour of an event that begins at `ps` on a row: that of its worker's step. */
  ofTime(row, ps) {
    const { worker } = this.run.description.rows[row];
    const { begins, ends, numbers } = this.steps[worker];
    let low = 0;
    let high = begins.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (begins[middle] <= ps) low = middle + 1;
      else high = middle;
    }
    return low === 0 || ps >= ends[low - 1] ? OUTSIDE : colorOfStep(numbers[low - 1]);
  }
}

/** A map from names to kinds, of {kind: names}. */
function byName(lists) {
  const known = Object.entries(lists).filter(([kind]) => KINDS.includes(kind));
  return new Map(known.flatMap(([kind, names]) => names.map((name) => [name, kind])));
}

/** The steps of each worker. One lasts until the next begins, as in the report. */
function stepsByWorker(workers, steps) {
  const all = Array.from({ length: workers }, () => []);
  for (const { number, workers: parts } of steps)
    for (const { worker, beginPs, endPs } of parts) all[worker].push({ number, beginPs, endPs });
  return all.map((list) => {
    list.sort((a, b) => a.beginPs - b.beginPs);
    return {
      begins: list.map(({ beginPs }) => beginPs),
      ends: list.map(({ endPs }, i) =>
        list[i + 1]?.number === list[i].number + 1 ? list[i + 1].beginPs : endPs,
      ),
      numbers: list.map(({ number }) => number),
    };
  });
}
