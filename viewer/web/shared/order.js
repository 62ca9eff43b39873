// The order of a table's rows, chosen by a click on a column's head.
import { element } from "./elements.js";

export class Order {
  /** `column`: its number; -1 leaves the rows as they come. `up`: the smallest first. */
  constructor(column = -1, up = true) {
    this.column = column;
    this.up = up;
  }

  get chosen() {
    return this.column >= 0;
  }

  /** Makes the heads of the columns buttons. changed(column) is called when another order is chosen. */
  offer(heads, changed) {
    heads.forEach((th, column) => {
      const button = element("button", th.textContent);
      button.title = th.title || `Sort by ${th.textContent.toLowerCase()}`;
      button.onclick = () => {
        // Numbers begin with the largest one, texts with the first.
        this.up = column === this.column ? !this.up : !th.classList.contains("number");
        this.column = column;
        this.mark(heads);
        changed(column);
      };
      th.removeAttribute("title");
      th.replaceChildren(button);
    });
    this.mark(heads);
  }

  mark(heads) {
    heads.forEach((th, column) => {
      if (column === this.column)
        th.setAttribute("aria-sort", this.up ? "ascending" : "descending");
      else th.removeAttribute("aria-sort");
    });
  }

  /**
   * The rows in this order. valueOf(row, column): a number or a text, or null where it is not known;
   * such rows come last in either direction.
   */
  sorted(rows, valueOf) {
    if (!this.chosen) return [...rows];
    const { compare } = new Intl.Collator(undefined, { numeric: true });
    const sign = this.up ? 1 : -1;
    const valued = rows.map((row) => [valueOf(row, this.column), row]);
    valued.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "string" ? compare(a, b) : a - b);
    });
    return valued.map(([, row]) => row);
  }
}
