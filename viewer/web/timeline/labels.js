// The names of rows and sections beside the timeline. They are real buttons, so that keyboards and
// screen readers reach them; only those in sight exist.
import { element } from "../shared/elements.js";
import { several } from "../shared/format.js";
import { SECTION } from "./layout.js";

// Before the name of a worker that holds up the others, so that colour is not all that tells it.
const ODD = "●";

export class Labels {
  /**
   * `actions`: toggleSection(key), toggleRow(row), and, where the page has them, pin(row),
   * compare(row), openTable(row).
   */
  constructor(node, actions) {
    this.element = node;
    this.actions = actions;
    this.corner = element("div", "", "corner");
    this.shown = "";
  }

  /** Says something in the corner above the names, which changes more often than they do. */
  note(text) {
    if (text !== this.corner.textContent) this.corner.textContent = text;
  }

  /** Places the names beside `bands`, as View has them. */
  draw(description, layout, bands, height) {
    const key = JSON.stringify([
      bands.map(({ items, top }) => [
        top,
        items.map((item) => [item.y, item.row ?? item.section.key, item.first, item.tracks]),
      ]),
      layout.track,
      layout.pinned,
      layout.compared,
      [...layout.odd],
      layout.shown,
      [...layout.closed],
      height,
    ]);
    if (key === this.shown) return;
    this.shown = key;
    const focused = document.activeElement?.dataset?.key;
    const nodes = [];
    for (const band of bands) {
      for (const item of band.items) {
        const y = band.top + item.y;
        const node =
          item.type === "section"
            ? this.section(item.section, layout)
            : this.row(description, layout, item);
        // The name of a row that begins above what is in sight stays as long as there is room for it.
        const rest = y + item.height - band.from;
        const stays = item.type === "row" && y < band.from && rest >= layout.track;
        const top = stays ? band.from : y;
        node.style.top = `${top}px`;
        node.style.height = `${y + item.height - top}px`;
        // Scrolled rows disappear behind the pinned ones.
        if (top < band.from) node.style.clipPath = `inset(${band.from - top}px 0 0 0)`;
        nodes.push(node);
      }
    }
    this.element.style.setProperty("--track", `${layout.track}px`);
    this.element.replaceChildren(...nodes, this.corner);
    if (focused) this.element.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  section(section, layout) {
    const kind = section.missing ? " missing" : section.members ? " role" : "";
    const node = element("div", "", `label section${kind}`);
    if (section.missing) {
      const name = element("span", section.title, "name");
      name.title = `There is no trace: ${section.title}`;
      node.append(name);
      return node;
    }
    const closed = layout.closed.has(section.key);
    const worker = layout.description.rows[section.rows[0]]?.worker ?? -1;
    const odd = layout.odd.has(worker);
    if (worker >= 0 && worker === layout.shown) node.classList.add("shown");
    const button = element(
      "button",
      `${closed ? "▸" : "▾"} ${odd ? `${ODD} ` : ""}${section.title}`,
      odd ? "name odd" : "name",
    );
    button.style.lineHeight = `${SECTION - 1}px`;
    button.dataset.key = `section ${section.key}`;
    button.title = odd ? `${section.title}: holds up the others` : section.title;
    button.setAttribute("aria-expanded", String(!closed));
    button.onclick = () => this.actions.toggleSection(section.key);
    node.append(button);
    return node;
  }

  row(description, layout, item) {
    const row = description.rows[item.row];
    const node = element("div", "", "label row");
    const apart = layout.isApart(item.row);
    const worker = apart ? description.workers[row.worker].name : "";
    const odd = apart && layout.odd.has(row.worker);
    const name = element(
      this.actions.openTable ? "button" : "span",
      [odd ? ODD : "", worker, layout.nameOf(item.row) || `line ${row.id}`]
        .filter(Boolean)
        .join(" "),
      odd ? "name odd" : "name",
    );
    name.dataset.key = `row ${item.row}`;
    const lanes = row.lanes > 1 ? `, ${row.lanes} lanes` : "";
    const whose = worker ? `${worker}${odd ? ", which holds up the others" : ""}: ` : "";
    name.title = `${whose}${row.name}: ${several(row.events, "event")}${lanes}.`;
    if (this.actions.openTable) {
      name.title += " Click for a table.";
      name.onclick = () => this.actions.openTable(item.row);
    }
    node.append(name);
    if (row.tracks > 1) {
      const whole = layout.isWhole(item.row);
      const more = element("button", whole ? "▾" : "▸", "more");
      more.setAttribute("aria-label", `${whole ? "Close" : "Open"} ${row.name}`);
      more.dataset.key = `more ${item.row}`;
      more.onclick = () => this.actions.toggleRow(item.row);
      node.append(more);
    }
    if (item.first > 0 && item.tracks > 1) node.append(wrappersText(item.first));
    if (this.actions.compare && description.workers.length > 1)
      node.append(this.comparison(row, item.row, layout));
    if (!this.actions.pin) return node;
    const pinned = layout.pinned.includes(item.row);
    const pin = element("button", "⚲", "pin");
    pin.setAttribute("aria-label", `${pinned ? "Unpin" : "Pin"} ${row.name}`);
    pin.setAttribute("aria-pressed", String(pinned));
    pin.dataset.key = `pin ${item.row}`;
    pin.onclick = () => this.actions.pin(item.row);
    node.append(pin);
    return node;
  }

  /** Shows this row of all workers, one below another, or all rows again. */
  comparison(row, number, layout) {
    const compared = layout.compared !== null;
    const button = element("button", "≡", "pin");
    button.title = compared ? "Show all rows" : "Compare this row on all workers";
    button.setAttribute("aria-label", `${button.title}: ${row.name}`);
    button.setAttribute("aria-pressed", String(compared));
    button.dataset.key = `compare ${number}`;
    button.onclick = () => this.actions.compare(number);
    return button;
  }
}

/** Says below a row's name that the levels around all others are hidden. */
function wrappersText(number) {
  const text = element("span", `${number} outer levels hidden`, "wrappers");
  text.title = `${number} events that last as long as the row, such as the frames that start a program, are above. ▸ shows them.`;
  return text;
}
