// The table of runs: newest first, with more loaded as the user scrolls.
import { Order } from "../shared/order.js";
import { age, moment, size, skew, pageOf } from "./text.js";

const PAGE = 100; // Runs of one request.
const MOST_SORTED = 1000; // Runs that are loaded to be sorted.
const AHEAD = 600; // Pixels below what is in sight at which the next ones are asked for.

export class RunTable {
  /**
   * `list`: the element that scrolls; it contains the table. `ask(query)` answers as /api/catalog
   * does. `told(answer)` is called with the first page, `chosen(name)` when a run is opened,
   * `ticked(names)` when others are to be compared.
   */
  constructor(list, ask, { told, chosen, ticked, failed }) {
    this.list = list;
    this.body = list.querySelector("tbody");
    this.ask = ask;
    this.on = { told, chosen, ticked, failed };
    this.ticks = []; // Names of the runs to compare, at most two.
    this.text = "";
    this.next = "";
    this.search = 0; // Counts searches, so that late answers are recognized.
    this.busy = false;
    this.order = new Order(); // Newest first, as the server gives them.
    this.order.offer([...list.querySelectorAll("thead th")], () => this.sort());
    list.addEventListener("scroll", () => this.more());
    addEventListener("resize", () => this.more());
    this.body.addEventListener("click", (event) => {
      if (!event.target.closest("a, input")) this.open(event.target.closest("tr"));
    });
    this.body.addEventListener("keydown", (event) => this.key(event));
  }

  /** Shows the runs that match `text`. */
  async show(text) {
    this.text = text;
    this.search += 1;
    const search = this.search;
    try {
      const answer = await this.ask({ q: text, limit: PAGE });
      if (search !== this.search) return;
      const focus = this.body.contains(document.activeElement) ? this.named() : null;
      this.body.replaceChildren();
      this.append(answer);
      if (focus !== null) this.row(focus)?.focus();
      this.on.told(answer);
    } catch (error) {
      if (search === this.search) this.on.failed(error);
    }
  }

  sort() {
    if (!this.order.chosen) return;
    const focused = document.activeElement; // Rows that are moved lose it.
    const valueOf = ({ values }, column) => values[column];
    this.body.append(...this.order.sorted([...this.body.rows], valueOf));
    if (this.body.contains(focused)) focused.focus();
    this.more();
  }

  /** Whether more runs are needed: to fill what is in sight, or to be sorted. */
  get lacks() {
    const { scrollTop, clientHeight, scrollHeight } = this.list;
    if (this.order.chosen && this.body.rows.length < MOST_SORTED) return true;
    return scrollTop + clientHeight + AHEAD >= scrollHeight;
  }

  async more() {
    if (this.busy || !this.next || !this.lacks) return;
    this.busy = true;
    const search = this.search;
    let answered = true;
    try {
      const answer = await this.ask({ q: this.text, limit: PAGE, after: this.next });
      if (search === this.search) this.append(answer);
    } catch (error) {
      answered = false;
      this.on.failed(error);
    }
    this.busy = false;
    if (answered || search !== this.search) this.more();
  }

  append({ runs, next }) {
    this.next = next;
    this.body.append(...runs.map((run) => this.rowOf(run)));
    const first = this.body.firstElementChild;
    if (first && !this.body.querySelector("[tabindex='0']")) first.tabIndex = 0;
    if (this.order.chosen) this.sort();
    else this.more();
  }

  /** Marks the run whose details are shown. */
  select(name) {
    for (const row of this.body.rows) {
      if (row.dataset.name === name) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  row(name) {
    return [...this.body.rows].find((row) => row.dataset.name === name);
  }
  named() {
    return document.activeElement.closest("tr")?.dataset.name ?? null;
  }

  open(row) {
    if (!row) return;
    this.move(row);
    this.on.chosen(row.dataset.name);
  }

  /** Marks a run to be compared, or no longer. A third one takes the place of the first. */
  tick(name) {
    const others = this.ticks.filter((other) => other !== name);
    this.ticks = others.length < this.ticks.length ? others : [...others, name].slice(-2);
    for (const row of this.body.rows)
      row.querySelector("input").checked = this.ticks.includes(row.dataset.name);
    this.on.ticked(this.ticks);
  }

  /** The arrows move from row to row, so that the table is a single stop of the Tab key. */
  move(row) {
    if (!row) return;
    for (const old of this.body.querySelectorAll("[tabindex='0']")) old.tabIndex = -1;
    row.tabIndex = 0;
    row.focus();
    row.scrollIntoView({ block: "nearest" });
    this.more();
  }

  key(event) {
    const row = event.target.closest("tr");
    const steps = {
      ArrowDown: () => row.nextElementSibling,
      ArrowUp: () => row.previousElementSibling,
      Home: () => this.body.firstElementChild,
      End: () => this.body.lastElementChild,
    };
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    if (steps[event.key]) this.move(steps[event.key]());
    else if (event.key === "Enter" && event.target === row) this.open(row);
    else if (event.key === " " && event.target === row) this.tick(row.dataset.name);
    else if (event.key === "o" && event.target === row) location.assign(pageOf(row.dataset.name));
    else return;
    event.preventDefault();
  }

  rowOf(run) {
    const row = document.createElement("tr");
    row.dataset.name = run.name;
    row.tabIndex = -1;
    row.values = valuesOf(run);
    const link = document.createElement("a");
    link.href = pageOf(run.name);
    link.textContent = run.run;
    link.tabIndex = -1; // "o" follows it.
    const tick = document.createElement("input");
    tick.type = "checkbox";
    tick.checked = this.ticks.includes(run.name);
    tick.title = "Tick two runs to compare them (Space)";
    tick.setAttribute("aria-label", `Compare ${run.run}`);
    tick.tabIndex = -1; // Space ticks the row.
    tick.onchange = () => this.tick(run.name);
    const name = cell(tick);
    name.append(link);
    name.title = `${run.logdir}\n${run.run}`;
    const time = cell(age(run.timeMs));
    if (run.timeMs) time.title = moment(run.timeMs);
    row.append(
      name,
      time,
      resultOf(run), // Early, because the last columns are out of sight on narrow screens.
      cell(workersOf(run), "number"),
      cell(run.headline ?? "", "headline"),
      cell(run.namespace),
      cell(run.job),
      cell(run.requester),
      cell(skew(run.skewNs, run.skewErrorNs), "number"),
      cell(run.unread ? "" : size(run.bytes), "number"),
    );
    return row;
  }
}

function cell(content, kind = "") {
  const element = document.createElement("td");
  element.className = kind;
  element.append(content);
  if (typeof content === "string") element.title = content;
  return element;
}

/** By column, what runs are sorted by; null where it is not known. */
function valuesOf(run) {
  const counted = run.manifest && !run.unread;
  return [
    run.run,
    run.timeMs ? -run.timeMs : null, // The age.
    run.problem || run.result || null,
    counted ? run.ok : run.workers || null,
    run.headline || null,
    run.namespace || null,
    run.job || null,
    run.requester || null,
    run.skewNs ?? null,
    run.unread ? null : run.bytes,
  ];
}

/** How many there are; of traces that are no XSpaces the list knows no number. */
function workersOf({ manifest, unread, ok, workers }) {
  if (manifest && !unread) return `${ok}/${workers}`;
  return workers > 0 ? `${workers}` : "";
}

function resultOf(run) {
  if (run.problem) return cell(run.problem, "bad");
  if (run.unread) return cell("…", "soft");
  if (!run.manifest) return cell("not recorded by Strobe", "soft");
  const causes = run.causes.map(({ name, workers }) => `${name} ${workers}`).join(", ");
  const text = [run.result, causes].filter(Boolean).join(": ");
  return cell(text, run.result === "Succeeded" ? "" : "bad");
}
