// What is selected and marked.
import { count, exact } from "./format.js";
import { MIN_SPAN } from "./view.js";

export class Selection {
  constructor(view, flows, panel, notices) {
    this.view = view;
    this.flows = flows;
    this.panel = panel;
    this.notices = notices;
    this.clearAll();
  }

  clearAll() {
    this.events = []; // Answers of /api/event.
    this.range = null; // {begin, end} of what a box selected; its events are not listed.
    this.shades = []; // {begin, end} of times that are drawn darker.
    this.marks = []; // {begin, end} of times that the user has marked.
  }

  get empty() {
    return this.events.length === 0 && !this.range;
  }

  /** The selected event, or null when there is none or more than one. */
  get single() {
    return this.events.length === 1 ? this.events[0] : null;
  }

  /** {begin, end} of what is selected, or null. */
  time() {
    if (this.events.length === 0) return this.range;
    return {
      begin: Math.min(...this.events.map((event) => event.beginPs)),
      end: Math.max(...this.events.map((event) => event.beginPs + event.durationPs)),
    };
  }

  // ---- Selecting ------------------------------------------------------------------------------

  /**
   * Selects an event; `which` is a question to /api/event. With `add` it joins the others, or
   * leaves them when it is selected already.
   */
  async select(which, add = false) {
    try {
      const event = await this.view.run.api.get("event", which);
      const same = this.events.findIndex((other) => isSame(other, event));
      if (!add) this.events = [event];
      else if (same >= 0) this.events.splice(same, 1);
      else this.events.push(event);
      this.show();
    } catch (error) {
      if (!add) this.clear();
      this.notices.tell(error.message);
    }
  }

  show() {
    if (this.events.length === 0) return this.clear();
    if (this.single) {
      this.panel.event(this.single);
      const { name, durationPs, line } = this.single;
      this.notices.say(`${name}, ${exact(durationPs)}, on ${line}`);
      this.flows.showEvent(this.single);
    } else {
      const title = `${count(this.events.length)} events selected`;
      this.panel.selection(title, sumByName(this.events));
      this.notices.say(title);
    }
    this.view.settle();
  }

  clear() {
    this.events = [];
    this.range = null;
    this.shades = [];
    this.flows.hideEvent();
    if (["event", "selection"].includes(this.panel.kind)) this.panel.hide();
    this.view.settle();
  }

  /** Selects all events that touch a box on the canvas. */
  async selectBox({ x0, y0, x1, y1 }) {
    const begin = this.view.timeAt(Math.min(x0, x1));
    const end = this.view.timeAt(Math.max(x0, x1));
    const tracks = this.view.tracksBetween(Math.min(y0, y1), Math.max(y0, y1));
    if (tracks.length === 0) return this.clear();
    try {
      const question = { tracks: tracks.join(","), begin, end };
      const answer = await this.view.run.api.get("select", question);
      if (answer.count === 0) return this.clear();
      this.events = [];
      this.range = { begin: answer.beginPs, end: answer.endPs };
      this.shades = [{ begin, end }];
      const title = `${count(answer.count)} events selected`;
      this.panel.selection(title, answer.names);
      this.notices.say(title);
      this.view.settle();
    } catch (error) {
      this.notices.tell(error.message);
    }
  }

  // ---- Going to what is selected --------------------------------------------------------------

  /** Brings an event into sight and selects it. `hit`: an event as any answer names it. */
  async jump(hit) {
    this.view.reveal(hit);
    await this.select({ row: hit.row, track: hit.track, ordinal: hit.ordinal });
  }

  /** Goes to the event before (-1) or after (1) the selected one on its track. */
  async step(direction) {
    const { row, track, ordinal } = this.single;
    const question = { row, track, ordinal: ordinal + direction };
    const next =
      question.ordinal < 0
        ? null
        : await this.view.run.api.get("event", question).catch(() => null);
    if (next) await this.jump(next);
    else this.notices.tell("There is no further event at this depth of the row.");
  }

  zoom() {
    const selected = this.time() ?? this.marks.at(-1);
    if (!selected) return this.notices.tell("Nothing is selected.");
    const margin = Math.max((selected.end - selected.begin) * 0.1, MIN_SPAN / 4);
    this.view.set(selected.begin - margin, selected.end + margin);
  }

  /** Shows a step of all workers and shades the time over which they began it. */
  zoomToStep(step) {
    const begins = step.workers.map((part) => part.beginPs);
    this.shades = [{ begin: Math.min(...begins), end: Math.max(...begins) }];
    const margin = (step.endPs - step.beginPs) * 0.05 + MIN_SPAN;
    this.view.set(step.beginPs - margin, step.endPs + margin);
  }

  // ---- Marks ----------------------------------------------------------------------------------

  /** Marks the selected time, or takes its mark away. */
  toggleMark() {
    const selected = this.time();
    if (!selected) return this.notices.tell("Nothing is selected.");
    const { begin, end } = selected;
    const same = this.marks.findIndex((mark) => mark.begin === begin && mark.end === end);
    if (same >= 0) this.marks.splice(same, 1);
    else this.marks.push(selected);
    this.notices.tell(same >= 0 ? "The mark is gone." : `Marked ${exact(end - begin)}.`);
    this.view.settle();
  }

  clearMarks() {
    this.marks = [];
    this.shades = [];
    this.view.settle();
  }
}

/** Whether two answers name the same event. */
export function isSame(a, b) {
  return a.row === b.row && a.track === b.track && a.ordinal === b.ordinal;
}

/** [{name, count, wallPs, selfPs}] of events. */
function sumByName(events) {
  const sums = new Map();
  for (const { name, durationPs, selfPs } of events) {
    const sum = sums.get(name) ?? { name, count: 0, wallPs: 0, selfPs: 0 };
    ++sum.count;
    sum.wallPs += durationPs;
    sum.selfPs += selfPs;
    sums.set(name, sum);
  }
  return [...sums.values()];
}
