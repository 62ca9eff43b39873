// The order of the listed runs: newest first, or by a column whose head was clicked.
import { element } from "../shared/elements.js";

export class Order {
  /** `heads`: the cells of the table's head. changed() is called when another order is chosen. */
  constructor(heads, changed) {
    this.heads = heads;
    this.column = -1; // -1: newest first, as the server gives them.
    this.up = true;
    heads.forEach((th, column) => {
      const button = element("button", th.textContent);
      button.title = "Sort the runs that are listed";
      button.onclick = () => this.choose(column, changed);
      th.replaceChildren(button);
    });
  }

  choose(column, changed) {
    this.up = column === this.column ? !this.up : !this.heads[column].classList.contains("number");
    this.column = column;
    this.heads.forEach((th, i) => {
      if (i === column) th.setAttribute("aria-sort", this.up ? "ascending" : "descending");
      else th.removeAttribute("aria-sort");
    });
    changed();
  }

  get chosen() {
    return this.column >= 0;
  }

  /** The rows in this order; each has its values by column in `row.values`, null where not known. */
  sorted(rows) {
    const valueOf = ({ values }) => values[this.column];
    const known = rows.filter((row) => valueOf(row) !== null);
    const others = rows.filter((row) => valueOf(row) === null);
    const compare = (a, b) =>
      typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
    known.sort((a, b) => compare(valueOf(a), valueOf(b)) * (this.up ? 1 : -1));
    return [...known, ...others];
  }
}
