// The tables of a run: asks for them, and shows one at a time.
import { element } from "../shared/elements.js";
import { count, several } from "../shared/format.js";
import { Sheet } from "../shared/sheet.js";
import { TabList } from "../shared/tab_list.js";
import { columnsOf, NAMES, tableNamed } from "./columns.js";
import { memoryCharts } from "./memory.js";

const XPROF =
  "XProf has more for JAX and TensorFlow: op profile, roofline, input pipeline. With xprof --logdir LOGDIR running, strobe view LOGDIR --xprof URL links each run to it.";
const ALL = ""; // All workers, in the list of them.

export class Tables {
  /** `run`: {api, description}. `name`: of the table to begin with. */
  constructor(section, run, name, actions) {
    this.run = run;
    this.actions = actions;
    this.current = NAMES.includes(name) ? name : NAMES[0];
    this.answers = new Map(); // By table and worker.
    this.asking = null; // Gives the latest question up.
    this.sheet = null;
    this.worker = this.workers();
    this.filter = this.filterField();
    this.copies = element("button", "Copy as CSV");
    this.copies.title = "All rows that match the filter, in their order";
    this.copies.onclick = () => this.copy();
    this.status = element("span", "", "status");
    this.status.setAttribute("role", "status");
    this.body = element("div");
    this.body.id = "table-shown";
    this.body.setAttribute("role", "tabpanel");
    section.replaceChildren(this.bar(), this.body);
    if (!actions.hasXprof()) section.append(element("p", XPROF, "note xprof"));
    this.show(this.current);
  }

  bar() {
    const list = element("div", "", "table-tabs");
    list.setAttribute("role", "tablist");
    list.setAttribute("aria-label", "Tables");
    list.append(...NAMES.map(tabOf));
    this.tabs = new TabList(list, (name) => this.show(name));
    const bar = element("div", "", "table-bar");
    bar.append(list);
    if (this.run.description.workers.length > 1) bar.append(labelled("Worker", this.worker));
    bar.append(labelled("Filter", this.filter), this.copies, this.status);
    return bar;
  }

  workers() {
    const { workers } = this.run.description;
    const list = element("select");
    list.append(new Option(`All ${count(workers.length)}`, ALL));
    list.append(...workers.map(({ name }, number) => new Option(name, String(number))));
    // With one worker there is nothing to compare, and its own table says more.
    list.value = workers.length > 1 ? ALL : "0";
    list.onchange = () => this.show(this.current);
    return list;
  }

  filterField() {
    const field = element("input");
    field.type = "search";
    field.autocomplete = "off";
    field.spellcheck = false;
    field.oninput = () => this.sheet?.filter(field.value);
    return field;
  }

  /** Shows a table; asks for it if it is not known yet. */
  async show(name) {
    this.asking?.abort();
    this.asking = new AbortController();
    const { signal } = this.asking;
    const worker = this.worker.value;
    this.current = name;
    this.tabs.mark(name);
    this.body.setAttribute("aria-labelledby", `table-${name}`);
    this.actions.changed();
    const key = `${name} ${worker}`;
    if (!this.answers.has(key)) {
      this.note("Computing the table…");
      try {
        const question = worker === ALL ? { table: name } : { table: name, worker: Number(worker) };
        this.answers.set(key, await this.run.api.get("table", question, signal));
      } catch (error) {
        if (!signal.aborted) this.note(error.message);
        return;
      }
      if (signal.aborted) return;
    }
    this.draw(this.answers.get(key));
  }

  note(text) {
    this.sheet = null;
    this.status.textContent = "";
    this.copies.disabled = true;
    this.body.replaceChildren(element("p", text, "note"));
  }

  draw(answer) {
    const { description } = this.run;
    const { title, order, up, place, together } = tableNamed(answer.table);
    if (answer.rows.length === 0) return this.note(emptyText(answer.table));
    this.sheet = new Sheet(title, columnsOf(answer, description), answer.rows, {
      order,
      up,
      lead: (row) => this.actions.go(place(row, description, answer.worker)),
      changed: () => this.tell(answer),
    });
    this.copies.disabled = false;
    const charts =
      answer.table === "memory" && answer.worker !== null
        ? memoryCharts(answer.rows, description)
        : [];
    if (charts.length > 0) charts.push(element("h2", "All counters"));
    const sentence = together?.(answer);
    if (sentence) charts.push(element("p", sentence, "note together"));
    this.body.replaceChildren(...charts, this.sheet.element);
    this.sheet.filter(this.filter.value);
  }

  /** Says how many rows there are. */
  tell({ rows, leftOut }) {
    const shown = this.sheet?.rows.length ?? rows.length;
    const all = several(rows.length, "row");
    const part = shown < rows.length ? `${count(shown)} of ${all}` : all;
    const left = leftOut > 0 ? `, ${count(leftOut)} with less time left out` : "";
    this.status.textContent = `${part}${left}`;
  }

  async copy() {
    this.status.textContent = await this.sheet.copy(this.current);
  }
}

function tabOf(name) {
  const tab = element("button", tableNamed(name).title);
  tab.id = `table-${name}`;
  tab.setAttribute("role", "tab");
  tab.setAttribute("aria-controls", "table-shown");
  return tab;
}

function labelled(text, field) {
  const label = element("label", `${text} `, "field");
  label.append(field);
  return label;
}

/** Why a table has no rows, and what records them. */
function emptyText(table) {
  const reasons = {
    kernels: "No work of a device was recorded.",
    operators: "No operators were recorded.",
    modules:
      "No modules were recorded. PyTorch records them with with_stack=True and with_modules=True, JAX those of programs on devices.",
    communication: "No collectives were recorded.",
    memory: "No allocations were recorded. strobe capture --memory records those of PyTorch.",
    steps:
      "No steps were recorded. Annotate the training loop with a step number, or call profiler.step() in PyTorch.",
  };
  return reasons[table];
}
