// Goes to the place in the timeline that a link of the overview names: a worker, a step of a worker
// or of all, or what is found by a text.
import { MIN_SPAN } from "../timeline/view.js";

// The names of calls in which workers wait, as libraries and compilers write them.
const CALLS = "nccl|rccl|gloo|all[-_]?(reduce|gather|to[-_]?all)|reduce[-_]?scatter|broadcast";
const MAX_CALLS = 2000; // In all workers; the longest one is looked for among these.

export class Places {
  constructor(view, selection, search, notices) {
    this.view = view;
    this.selection = selection;
    this.search = search;
    this.notices = notices;
  }

  /**
   * {worker, step, call, find}: a name, a number, whether the longest collective of that step is to
   * be selected, and a text. Each may be missing.
   */
  async show({ worker, step, call, find }) {
    const { run } = this.view;
    const number = worker ? this.workerNamed(worker) : -1;
    const part = step === undefined ? null : await this.showStep(step, number, worker);
    if (step === undefined && worker) this.view.showWindow();
    if (run !== this.view.run) return;
    run.layout.shown = number;
    if (number >= 0) this.showWorker(number);
    else if (worker) this.notices.tell(`There is no trace of ${worker} here.`);
    if (find) this.search.restore(find, false);
    if (call && part && number >= 0) await this.selectLongestCall(number, part);
  }

  /** Selects the collective in which a worker was longest within [beginPs, endPs). */
  async selectLongestCall(worker, { beginPs, endPs }) {
    const { run } = this.view;
    const question = { q: CALLS, regex: 1, in: "names", count: 0, from: beginPs, limit: MAX_CALLS };
    const { hits } = await run.api.get("find", question);
    const calls = hits.filter((hit) => hit.worker === worker && hit.beginPs < endPs);
    if (calls.length === 0 || run !== this.view.run) return;
    const { row, track, ordinal } = calls.reduce((a, b) => (b.durationPs > a.durationPs ? b : a));
    await this.selection.select({ row, track, ordinal });
  }

  workerNamed(name) {
    return this.view.run.description.workers.findIndex((worker) => worker.name === name);
  }

  /** {beginPs, endPs} of the step that it shows; nothing if there is none. */
  async showStep(step, number, name) {
    const { run } = this.view;
    let found;
    try {
      // The server looks in the loop that takes most of the time, whose steps the report compares.
      found = (await run.api.get("steps", { number: step })).step;
    } catch (error) {
      // Whether the trace has the step is not known.
      if (run === this.view.run) this.notices.tell(error.message);
      return;
    }
    if (run !== this.view.run) return;
    const part = number < 0 ? found : found?.workers.find(({ worker }) => worker === number);
    if (!part)
      return this.notices.tell(`The trace${name ? ` of ${name}` : ""} has no step ${step}.`);
    const { beginPs, endPs } = part;
    const margin = (endPs - beginPs) * 0.05 + MIN_SPAN;
    this.selection.shades = [{ begin: beginPs, end: endPs }];
    this.view.set(beginPs - margin, endPs + margin);
    return part;
  }

  /** Brings the rows of a worker to the top. */
  showWorker(number) {
    const { layout, description } = this.view.run;
    const row = description.rows.findIndex(({ worker }) => worker === number);
    if (row < 0) return this.notices.tell(`${description.workers[number].name} has no events.`);
    this.view.revealRow(row, 0);
    const section = layout.items.find((item) => item.section?.rows.includes(row));
    this.view.scroll((section ?? layout.itemOf(row)).y - this.view.top);
  }
}
