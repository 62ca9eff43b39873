// Arrows between events: those of the selected event or, when flow events are switched on, those
// of all rows in sight.
import { ranges } from "./api.js";
import { count } from "./format.js";

const MAX_ARROWS = 400; // More would hide the events.

export class Flows {
  /** `button`: switches flow events on and off. */
  constructor(button, view, notices) {
    this.button = button;
    this.view = view;
    this.notices = notices;
    this.on = false;
    this.arrows = []; // [[from, to]], each {row, track, beginPs, durationPs}.
    this.question = 0; // Number of the latest question; older answers are dropped.
  }

  /** Draws an event's own arrows, unless those of all rows are drawn. */
  showEvent(event) {
    if (!this.on) this.arrows = arrowsOf(event);
  }

  hideEvent() {
    if (!this.on) this.arrows = [];
  }

  /** `event`: the selected one, or null. */
  toggle(event) {
    this.on = !this.on;
    this.button.setAttribute("aria-pressed", String(this.on));
    this.arrows = event ? arrowsOf(event) : [];
    this.refresh();
    this.view.redraw();
  }

  /** Fetches the arrows of the rows in sight, if they are to be drawn. */
  async refresh() {
    if (!this.on || !this.view.run) return;
    const number = ++this.question;
    const { begin, end, run } = this.view;
    const rows = this.view.rows();
    if (rows.length === 0) return;
    try {
      const question = { rows: ranges(rows), begin, end, limit: MAX_ARROWS };
      const { total, arrows } = await run.api.get("arrows", question);
      if (number !== this.question || !this.on) return;
      this.arrows = arrows.map(([from, to]) => [endOf(from), endOf(to)]);
      const drawn = `${count(arrows.length)} of ${count(total)} flow events`;
      this.button.title = `${drawn} drawn (v)`;
      this.notices.tell(`${drawn} are drawn`);
      this.view.redraw();
    } catch (error) {
      this.notices.tell(error.message);
    }
  }
}

/** One end of an arrow, which the server sends as an array. */
function endOf([row, track, ordinal, beginPs, durationPs]) {
  return { row, track, ordinal, beginPs, durationPs };
}

/** `event`: an answer of /api/event. */
function arrowsOf(event) {
  const { row, track, beginPs, durationPs } = event;
  const own = { row, track, beginPs, durationPs };
  return [...event.in.map((from) => [from, own]), ...event.out.map((to) => [own, to])];
}
