// What users do with rows: open, close, pin and filter them, and read their events as a table.
import { several } from "../shared/format.js";
import { sectionOf } from "./layout.js";
import { keyOf, MAX_COPIED } from "./panel.js";

const MAX_TABLE_EVENTS = 100; // On one page of a table.

export class Rows {
  /** `field`: where the filter is typed. */
  constructor(field, view, panel, notices) {
    this.field = field;
    this.view = view;
    this.panel = panel;
    this.notices = notices;
    this.question = 0; // Number of the latest question; older answers are dropped.
    field.oninput = () => view.run && this.filter();
  }

  toggleSection(key) {
    this.view.run.layout.toggleSection(key);
    this.view.arrange();
  }

  toggleRow(row) {
    this.view.run.layout.toggleRow(row);
    this.view.arrange();
  }

  togglePin(row) {
    this.view.run.layout.pin(row);
    this.view.scroll(0);
  }

  /** Shows a row's like on all workers, one below another; again, all rows. */
  compare(row) {
    const { layout } = this.view.run;
    layout.compare(row);
    this.view.arrange();
    this.view.scroll(-this.view.top);
    this.notices.say(layout.compared === null ? "All rows" : "This row on all workers");
  }

  /** Marks the workers of these names, which hold up the others. */
  markOdd(names) {
    const { layout, description } = this.view.run;
    const numbers = names.map((name) =>
      description.workers.findIndex((each) => each.name === name),
    );
    layout.odd = new Set(numbers.filter((number) => number >= 0));
    this.view.redraw();
  }

  /** Shows only rows whose worker, section and name hold what the field says. */
  filter() {
    const { layout, description } = this.view.run;
    const text = this.field.value.toLowerCase();
    layout.filter =
      text &&
      ((number) => {
        const row = description.rows[number];
        const worker = description.workers[row.worker].name;
        const names = layout.rowsAt(number).map((drawn) => description.rows[drawn].name);
        const all = [worker, sectionOf(row), layout.nameOf(number), ...names].join(" ");
        return all.toLowerCase().includes(text);
      });
    this.view.arrange();
  }

  /** Shows all rows again, because the filter hides `name`, to which the user has gone. */
  dropFilter(name) {
    this.notices.tell(`The filter “${this.field.value}” is off: it hides the row ${name}.`);
    this.field.value = "";
    this.filter();
  }

  /**
   * Lists a row's events: those behind `last`, a hit, or else the `longest` or those from the view's
   * begin on.
   */
  async openTable(row, { longest = false, last = null } = {}) {
    const number = ++this.question;
    const { run } = this.view;
    const { api, description } = run;
    const isLate = () => number !== this.question || run !== this.view.run;
    const from = last ? { after: keyOf(last) } : { from: this.view.begin };
    const order = longest ? "duration" : "start";
    try {
      const question = { rows: String(row), limit: MAX_TABLE_EVENTS, order, ...from };
      const { hits } = await api.get("events", question);
      if (isLate()) return;
      const { name } = description.rows[row];
      const more = () => this.openTable(row, { longest, last: hits.at(-1) });
      const all = { rows: String(row), limit: MAX_COPIED, order };
      this.panel.events("table", `Events of ${name}`, description, hits, {
        longest,
        list: (wanted) => this.openTable(row, { longest: wanted }),
        more: hits.length === MAX_TABLE_EVENTS ? more : null,
        all: async () => (await api.get("events", all)).hits,
      });
      this.notices.say(`${several(hits.length, "event")} of ${name}`);
    } catch (error) {
      if (!isLate()) this.notices.tell(error.message);
    }
  }
}
