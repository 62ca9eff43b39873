// A table of many rows: sorted by a click on a head, filtered, and shown page by page. Names come
// from traces, which may be hostile, so they are only ever set as text.
import { element, table } from "../shared/elements.js";
import { count } from "../shared/format.js";

const PAGE = 100;

export class Sheet {
  /**
   * `columns`: as columns.js has them. `order`: the head that it is sorted by at first, `up`: the
   * smallest first. lead(row): called when a row's name is chosen; null if rows lead nowhere.
   */
  constructor(caption, columns, rows, { order, up = false, lead = null, changed = () => {} }) {
    this.caption = caption;
    this.columns = columns;
    this.all = rows;
    this.column = Math.max(
      0,
      columns.findIndex(({ head }) => head === order),
    );
    this.up = up;
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
    const { of, rank = of } = columns[this.column];
    const has = (row) =>
      columns.some((column) => {
        const value = column.of(row);
        return typeof value === "string" && value.toLowerCase().includes(text);
      });
    const kept = text ? this.all.filter(has) : [...this.all];
    const sign = this.up ? 1 : -1;
    // What is not known comes last in either order.
    this.rows = kept.sort((a, b) => {
      const [x, y] = [rank(a), rank(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
    });
    this.draw();
  }

  draw() {
    const first = this.page * PAGE;
    const shown = this.rows.slice(first, first + PAGE);
    const node = table(
      this.caption,
      this.columns.map(({ head }) => head),
      shown.map((row) => this.columns.map((column) => this.cell(column, row))),
    );
    node.querySelectorAll("thead th").forEach((th, i) => this.head(th, i));
    for (const line of node.tBodies[0].rows)
      this.columns.forEach(({ number, odd }, i) => {
        if (number) line.cells[i].classList.add("number");
        if (odd && line.cells[i].textContent) line.cells[i].classList.add("odd");
      });
    const box = element("div", "", "scrolled");
    box.tabIndex = 0; // So that the keyboard can scroll it.
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", this.caption);
    box.append(node);
    this.element.replaceChildren(box, ...this.pages(first, shown.length));
    this.changed();
  }

  cell(column, row) {
    const value = column.of(row);
    if (value === null) return "–";
    const text = column.write(value);
    if (!column.leads || !this.lead) return text;
    const button = element("button", text, "lead");
    button.title = text;
    button.onclick = () => this.lead(row);
    return button;
  }

  head(th, i) {
    const { head, title, number } = this.columns[i];
    const button = element("button", head);
    button.title = title || `Sort by ${head.toLowerCase()}`;
    button.onclick = () => {
      // Numbers begin with the largest one, texts with the first.
      this.up = this.column === i ? !this.up : !number;
      this.column = i;
      this.page = 0;
      this.arrange();
      this.element.querySelectorAll("thead button")[i].focus();
    };
    if (i === this.column) th.setAttribute("aria-sort", this.up ? "ascending" : "descending");
    if (number) th.classList.add("number");
    th.replaceChildren(button);
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
}
