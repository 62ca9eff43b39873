// A table of many rows: sorted by a click on a head, filtered, shown page by page, and copied as CSV.
// Names come from traces, which may be hostile, so they are only ever set as text.
import { copy } from "./browser.js";
import { element, scrolled, table } from "./elements.js";
import { count, several } from "./format.js";
import { Order } from "./order.js";

const PAGE = 100;
const NOTHING = "–"; // Stands where the value is not known.

export class Sheet {
  /**
   * `columns`: as column.js makes them. `order`: the head that it is sorted by at first, `up`: the
   * smallest first. lead(row): called when a row's name is chosen; null if rows lead nowhere.
   */
  constructor(caption, columns, rows, { order, up = false, lead = null, changed = () => {} }) {
    this.caption = caption;
    this.columns = columns;
    this.all = rows;
    const first = columns.findIndex(({ head }) => head === order);
    this.order = new Order(Math.max(0, first), up);
    this.lead = lead;
    this.changed = changed; // Called when other rows are shown.
    this.text = "";
    this.page = 0;
    this.element = element("div", "", "sheet");
    this.arrange();
  }

  /** Shows the rows of which a text has `text` in it, in any case. */
  filter(text) {
    this.text = text.trim().toLowerCase();
    this.page = 0;
    this.arrange();
  }

  arrange() {
    const { columns, text } = this;
    const has = (row) =>
      columns.some((column) => {
        const value = column.of(row);
        return typeof value === "string" && value.toLowerCase().includes(text);
      });
    const kept = text ? this.all.filter(has) : this.all;
    this.rows = this.order.sorted(kept, (row, i) => {
      const { of, rank = of } = columns[i];
      return rank(row);
    });
    this.draw();
  }

  draw() {
    const { columns } = this;
    const first = this.page * PAGE;
    const shown = this.rows.slice(first, first + PAGE);
    const node = table(
      this.caption,
      columns.map(({ head }) => head),
      shown.map((row) => columns.map((column) => this.cell(column, row))),
      columns.flatMap(({ number }, i) => (number ? [i] : [])),
    );
    const heads = [...node.tHead.rows[0].cells];
    heads.forEach((th, i) => (th.title = columns[i].title));
    this.order.offer(heads, (column) => {
      this.page = 0;
      this.arrange();
      this.element.querySelectorAll("thead button")[column].focus();
    });
    for (const line of node.tBodies[0].rows)
      columns.forEach(({ odd }, i) => {
        if (odd && line.cells[i].textContent !== NOTHING) line.cells[i].classList.add("odd");
      });
    this.element.replaceChildren(scrolled(node), ...this.pages(first, shown.length));
    this.changed();
  }

  cell(column, row) {
    const value = column.of(row);
    if (value === null) return NOTHING;
    const text = column.write(value);
    if (!column.leads || !this.lead) return text;
    const button = element("button", text, "lead");
    button.title = String(value);
    button.onclick = () => this.lead(row);
    return button;
  }

  /** The buttons to go through the pages; none if there is one page only. */
  pages(first, shown) {
    if (this.rows.length <= PAGE) return [];
    const bar = element("div", "", "pages");
    const range = `Rows ${count(first + 1)} to ${count(first + shown)} of ${count(this.rows.length)}`;
    const step = (text, by, label) => {
      const button = element("button", text);
      button.setAttribute("aria-label", label);
      const page = this.page + by;
      button.disabled = page < 0 || page * PAGE >= this.rows.length;
      button.onclick = () => {
        this.page = page;
        this.draw();
        const buttons = this.element.querySelectorAll(".pages button");
        const wanted = buttons[by < 0 ? 0 : 1];
        (wanted.disabled ? buttons[by < 0 ? 1 : 0] : wanted).focus();
      };
      return button;
    };
    bar.append(step("◀", -1, "Previous rows"), element("span", range), step("▶", 1, "Next rows"));
    return [bar];
  }

  /** Copies the rows that match the filter, in their order. What it has done, in words. */
  copy(name) {
    return copyRows(this.columns, this.rows, name);
  }
}

/** Copies rows as CSV; `columns` as column.js makes them. What it has done, in words. */
export async function copyRows(columns, rows, name) {
  const copied = await copy(csvOf(columns, rows), `${name}.csv`);
  const what = several(rows.length, "row");
  return copied ? `copied ${what}` : `saved ${what} as a file`;
}

/** For spreadsheets and programs (RFC 4180). */
function csvOf(columns, rows) {
  const lines = [columns.map(({ csv: [head] }) => cell(head))];
  for (const row of rows)
    lines.push(
      columns.map(({ of, csv: [, value] }) => {
        const told = of(row);
        return told === null ? "" : cell(value(told));
      }),
    );
  return lines.map((line) => `${line.join(",")}\r\n`).join("");
}

function cell(value) {
  if (typeof value === "number") return String(value);
  // Names come from traces. A spreadsheet would run one that begins like a formula.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
