// What is selected.
import { exact, several } from "../shared/format.js";
import { MIN_SPAN } from "./view.js";

const NOT_FOUND = 404;

export class Selection {
  constructor(view, flows, panel, notices) {
    this.view = view;
    this.flows = flows;
    this.panel = panel;
    this.notices = notices;
    // Number of the latest question that replaces what is selected; answers to older ones are
    // dropped.
    this.question = 0;
    this.pending = null; // Resolves once all questions of that number are answered.
    this.clearAll();
  }

  clearAll() {
    ++this.question;
    this.pending = null;
    this.forget();
  }

  forget() {
    this.events = []; // Answers of /api/event.
    this.boxes = []; // {tracks, begin, end}: boxes with selected events, which are not listed.
    this.range = null; // {begin, end} of what is selected, when boxes are.
    this.shades = []; // {begin, end} of times that are drawn darker.
    this.anchor = null; // {row, track} of what was selected last: it is kept in sight.
  }

  get empty() {
    return this.events.length === 0 && !this.range;
  }

  /** The selected event, or null when there is none or more than one. */
  get single() {
    return this.events.length === 1 && this.boxes.length === 0 ? this.events[0] : null;
  }

  /** {begin, end} of what is selected, or null. */
  time() {
    if (this.range || this.events.length === 0) return this.range;
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
    await this.ask(add, async (isLate) => {
      try {
        const event = await this.view.run.api.get("event", which);
        if (isLate()) return;
        const anchor = { row: event.row, track: event.track };
        if (!add) this.replace(event);
        else if (this.boxes.length > 0)
          return await this.sum(this.boxes, this.toggled(event), anchor, isLate);
        else this.events = this.toggled(event);
        this.anchor = anchor;
        this.show();
      } catch (error) {
        if (isLate()) return;
        if (!add) this.unselect();
        this.notices.tell(error.message);
      }
    });
  }

  /** The selected events with another one, or without it if it is one of them. */
  toggled(event) {
    const others = this.events.filter((other) => !isSame(other, event));
    return others.length < this.events.length ? others : [...others, event];
  }

  /**
   * Runs `answer(isLate)`, which asks the server. With `add`, what was asked before is answered
   * first: the answer joins that selection, and not the one that is still shown.
   */
  async ask(add, answer) {
    const number = add ? this.question : ++this.question;
    const isLate = () => number !== this.question;
    const before = add ? this.pending : null;
    const run = async () => {
      await before;
      if (!isLate()) await answer(isLate);
    };
    this.pending = run();
    await this.pending;
  }

  replace(event) {
    if (this.boxes.length > 0) this.shades = []; // The shades of a step stay.
    this.events = [event];
    this.boxes = [];
  }

  show() {
    this.range = null;
    if (this.events.length === 0) return this.unselect();
    if (this.single) {
      this.panel.event(this.single);
      const { name, durationPs, line } = this.single;
      this.notices.say(`${name}, ${exact(durationPs)}, on ${line}`);
      this.flows.showEvent(this.single);
    } else {
      this.showSums(
        this.events.length,
        this.events.map(({ name, worker, durationPs, selfPs }) => ({
          name,
          worker,
          count: 1,
          wallPs: durationPs,
          selfPs,
        })),
      );
    }
    this.view.settle();
  }

  showSums(number, sums) {
    const title = `${several(number, "event")} selected`;
    this.panel.selection(title, sums);
    this.notices.say(title);
  }

  clear() {
    this.clearAll();
    this.unselect();
  }

  /** Nothing is selected; what is being asked still joins. */
  unselect() {
    this.forget();
    this.flows.hideEvent();
    this.panel.hide("event", "selection");
    this.view.settle();
  }

  clearShades() {
    this.shades = [];
    this.view.settle();
  }

  /** Selects all events that touch a box on the canvas; with `add`, beside the others. */
  async selectBox({ x0, y0, x1, y1 }, add = false) {
    const begin = Math.round(this.view.timeAt(Math.min(x0, x1)));
    const end = Math.round(this.view.timeAt(Math.max(x0, x1)));
    const tracks = this.view.tracksBetween(Math.min(y0, y1), Math.max(y0, y1));
    if (tracks.length === 0) return add ? undefined : this.clear();
    const [row, , last] = tracks.at(-1).split(/[:-]/).map(Number);
    const box = { tracks, begin, end };
    const anchor = { row, track: last };
    await this.ask(add, async (isLate) => {
      try {
        if (add) await this.sum([...this.boxes, box], this.events, anchor, isLate);
        else await this.sum([box], [], anchor, isLate);
      } catch (error) {
        if (!isLate()) this.notices.tell(error.message);
      }
    });
  }

  /** Selects the events of boxes and others, and sums them up, each event once. */
  async sum(boxes, events, anchor, isLate) {
    const tracks = boxes.flatMap((box) => box.tracks.map((of) => `${of}:${box.begin}:${box.end}`));
    const singles = events.map(({ row, track, ordinal }) => `${row}:${track}:${ordinal}`);
    const answer = await this.view.run.api.get("select", {
      tracks: tracks.join(","),
      events: singles.join(","),
    });
    if (isLate()) return;
    if (answer.count === 0) return this.unselect();
    this.events = events;
    this.anchor = anchor;
    this.boxes = boxes;
    this.range = { begin: answer.beginPs, end: answer.endPs };
    this.shades = boxes.map(({ begin, end }) => ({ begin, end }));
    this.flows.hideEvent();
    const { workers } = this.view.run.description;
    this.showSums(
      answer.count,
      answer.names.map((sum) => ({ ...sum, worker: workers[sum.worker].name })),
    );
    this.view.settle();
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
    const { question } = this;
    const which = { row, track, ordinal: ordinal + direction };
    const none = "There is no further event at this depth of the row.";
    if (which.ordinal < 0) return this.notices.tell(none);
    try {
      const next = await this.view.run.api.get("event", which);
      if (question === this.question) await this.jump(next);
    } catch (error) {
      if (question === this.question)
        this.notices.tell(error.status === NOT_FOUND ? none : error.message);
    }
  }

  /** Zooms to what is selected or, when nothing is, to `mark`. */
  zoom(mark) {
    const wanted = this.time() ?? mark;
    if (!wanted) return this.notices.tell("Nothing is selected.");
    const margin = Math.max((wanted.end - wanted.begin) * 0.1, MIN_SPAN / 4);
    this.view.set(wanted.begin - margin, wanted.end + margin);
  }

  /** Shows a step of all workers and shades the time over which they began it. */
  zoomToStep(step) {
    const begins = step.workers.map((part) => part.beginPs);
    this.shades = [{ begin: Math.min(...begins), end: Math.max(...begins) }];
    const margin = (step.endPs - step.beginPs) * 0.05 + MIN_SPAN;
    this.view.set(step.beginPs - margin, step.endPs + margin);
  }
}

/** Whether two answers name the same event. */
export function isSame(a, b) {
  return a.row === b.row && a.track === b.track && a.ordinal === b.ordinal;
}
