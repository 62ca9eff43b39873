// The pane below the timeline: details of an event, sums of a selection, tables. Names come from
// traces and are only ever set as text.
import { amount, count, exact, time } from "./format.js";

export class Panel {
  /** `actions`: jump(event), zoomToStep(step), closed(). */
  constructor(actions) {
    this.actions = actions;
    this.element = document.getElementById("panel");
    this.title = document.getElementById("panel-title");
    this.body = document.getElementById("panel-body");
    document.getElementById("panel-close").onclick = () => {
      this.hide();
      actions.closed();
    };
    this.kind = "";
  }

  show(kind, title, ...nodes) {
    this.kind = kind;
    this.title.textContent = title;
    this.body.replaceChildren(...nodes.filter(Boolean));
    this.body.scrollTop = 0;
    if (this.element.hidden) {
      this.element.hidden = false;
      dispatchEvent(new Event("resize"));
    }
  }
  hide() {
    if (this.element.hidden) return;
    this.kind = "";
    this.element.hidden = true;
    dispatchEvent(new Event("resize"));
  }

  event(details) {
    const seconds = details.durationPs / 1e12;
    const value = (name) => Number(details.args.find((arg) => arg.name === name)?.value);
    const facts = [
      ["Start", exact(details.beginPs)],
      ["Duration", exact(details.durationPs)],
      ["Self time", exact(details.selfPs)],
      ["Row", details.line],
      ["Section", details.plane],
      ["Worker", details.worker],
    ];
    const flops = value("model_flops") || value("flops"),
      bytes = value("bytes_accessed");
    if (flops > 0)
      facts.push([
        "FLOPS",
        `${count(flops)}${seconds > 0 ? `, ${amount(flops / seconds, "FLOP/s")}` : ""}`,
      ]);
    if (bytes > 0)
      facts.push([
        "Bytes accessed",
        `${count(bytes)}${seconds > 0 ? `, ${amount(bytes / seconds, "B/s")}` : ""}`,
      ]);
    if (details.longName) facts.push(["Full name", details.longName]);
    const stack = details.args.find((arg) =>
      ["source_stack", "stack", "stack_trace"].includes(arg.name),
    )?.value;
    const around = [];
    for (const [name, text] of [
      ["parent", "Inside of"],
      ["module", "XLA module"],
      ["step", "Step"],
    ])
      if (details[name]) around.push([text, details[name]]);
    for (const event of details.in) around.push(["Started by", event]);
    for (const event of details.out) around.push(["Starts", event]);
    this.show(
      "event",
      details.name,
      table("Event", null, facts),
      details.args.length > 0 &&
        table(
          "Arguments",
          null,
          details.args.map(({ name, value: text }) => [name, String(text ?? "")]),
        ),
      stack && withCaption("Stack trace", element("pre", String(stack).split(/[\n;]/).join("\n"))),
      around.length > 0 &&
        table(
          "Links",
          null,
          around.map(([what, event]) => [what, this.link(event)]),
        ),
    );
  }

  link(event) {
    const button = element("button", `${event.name}  (${event.line}, ${time(event.durationPs)})`);
    button.onclick = () => this.actions.jump(event);
    return button;
  }

  /** `sums`: [{name, count, wallPs, selfPs}]. */
  selection(title, sums) {
    const total = sums.reduce(
      (all, sum) => ({
        count: all.count + sum.count,
        wallPs: all.wallPs + sum.wallPs,
        selfPs: all.selfPs + sum.selfPs,
      }),
      { count: 0, wallPs: 0, selfPs: 0 },
    );
    const rows = sums.map((sum) => [
      sum.name,
      sum.count,
      sum.wallPs,
      sum.selfPs,
      sum.wallPs / sum.count,
    ]);
    const box = sortable(
      "Selected events",
      ["Name", "Occurrences", "Wall duration", "Self time", "Average wall duration"],
      rows,
      [String, count, time, time, time],
      3,
    );
    this.show(
      "selection",
      title,
      element(
        "p",
        `${count(total.count)} events of ${count(sums.length)} names, wall ${time(total.wallPs)}, self ${time(total.selfPs)}`,
        "note",
      ),
      box,
    );
  }

  /** Events of a row or hits of a search; `more()` gets the next ones, null at the end. */
  events(kind, title, description, hits, more) {
    const rows = hits.map((hit) => {
      const button = element("button", hit.name);
      button.onclick = () => this.actions.jump(hit);
      return [
        button,
        exact(hit.beginPs),
        exact(hit.durationPs),
        description.rows[hit.row].name,
        description.workers[hit.worker].name,
      ];
    });
    const next = more && element("button", "Next events");
    if (next) next.onclick = more;
    this.show(
      kind,
      title,
      table(
        "Events in the order of their begins",
        ["Name", "Start", "Duration", "Row", "Worker"],
        rows,
      ),
      next,
    );
  }

  compare(description, steps) {
    const workers = description.workers.map((worker) => [
      worker.name,
      count(worker.events),
      worker.shiftPs === 0 ? "first" : `${time(worker.shiftPs)} after the first`,
      `${time(worker.clockOffsetNs * 1e3)}${worker.clockErrorNs === null ? " (not measured)" : ` ± ${time(worker.clockErrorNs * 1e3)}`}`,
      worker.problems.join("\n"),
    ]);
    const name = (number) => description.workers[number].name;
    const longest = Math.max(1, ...steps.map((step) => step.endPs - step.beginPs));
    const rows = steps.map((step) => {
      const jump = element("button", `${step.name} ${step.number}`);
      jump.onclick = () => this.actions.zoomToStep(step);
      const bar = element("span", "", "bar");
      bar.style.width = `${Math.round((120 * (step.endPs - step.beginPs)) / longest)}px`;
      bar.title = time(step.endPs - step.beginPs);
      const lengths = step.workers.map((part) => part.endPs - part.beginPs).sort((a, b) => a - b);
      return [
        jump,
        time(step.endPs - step.beginPs),
        bar,
        name(step.firstToBegin),
        name(step.lastToBegin),
        time(step.beginSpreadPs),
        name(step.lastToEnd),
        time(step.endSpreadPs),
        `${time(lengths[0])} to ${time(lengths.at(-1))}`,
      ];
    });
    const all = steps
      .flatMap((step) => step.workers.map((part) => part.endPs - part.beginPs))
      .sort((a, b) => a - b);
    const at = (share) => all[Math.min(all.length - 1, Math.floor(share * all.length))];
    this.show(
      "compare",
      "Workers and steps",
      table(
        "Workers on one clock",
        ["Worker", "Events", "Begins", "Clock against ours", "Problems"],
        workers,
      ),
      steps.length > 0 &&
        element(
          "p",
          `${count(steps.length)} steps. Step time: median ${time(at(0.5))}, p95 ${time(at(0.95))}, shortest ${time(all[0])}, longest ${time(all.at(-1))}`,
          "note",
        ),
      steps.length > 0
        ? table(
            "Steps",
            [
              "Step",
              "Time",
              "Length",
              "First to begin",
              "Last to begin",
              "Spread of begins",
              "Last to end",
              "Spread of ends",
              "Shortest and longest",
            ],
            rows,
          )
        : element(
            "p",
            "No step is told of: annotate the training loop with a step number to compare workers step by step.",
            "note",
          ),
    );
  }
}

function element(tag, text, className = "") {
  const node = document.createElement(tag);
  node.textContent = text;
  if (className) node.className = className;
  return node;
}

function withCaption(caption, node) {
  const box = document.createElement("div");
  const head = element("p", caption);
  head.style.fontWeight = "600";
  head.style.margin = "0 0 4px";
  box.append(head, node);
  return box;
}

function cell(tag, value) {
  const node = document.createElement(tag);
  if (value instanceof Node) node.append(value);
  else node.textContent = value;
  return node;
}

/** Without `heads` the first column names the second. */
function table(caption, heads, rows) {
  const node = document.createElement("table");
  node.append(element("caption", caption));
  if (heads) {
    const head = node.createTHead().insertRow();
    for (const text of heads) {
      const th = element("th", text);
      th.scope = "col";
      head.append(th);
    }
  }
  const body = node.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((value, i) => {
      const td = cell(!heads && i === 0 ? "th" : "td", value);
      if (td.tagName === "TH") td.scope = "row";
      line.append(td);
    });
  }
  return node;
}

const MOST_LINES = 500;

/** A table whose heads sort it; numbers largest first. `show`: how each column is written. */
function sortable(caption, heads, rows, show, first) {
  const node = document.createElement("div");
  let column = first,
    up = false;
  const draw = () => {
    const sorted = [...rows].sort(
      (a, b) =>
        (typeof a[column] === "string"
          ? a[column].localeCompare(b[column])
          : a[column] - b[column]) * (up ? 1 : -1),
    );
    const made = table(
      caption,
      heads,
      sorted.slice(0, MOST_LINES).map((row) => row.map((value, i) => show[i](value))),
    );
    made.querySelectorAll("thead th").forEach((th, i) => {
      const button = element("button", th.textContent);
      button.onclick = () => {
        up = column === i ? !up : i === 0;
        column = i;
        draw();
      };
      if (i === column) th.setAttribute("aria-sort", up ? "ascending" : "descending");
      th.replaceChildren(button);
      if (i > 0) th.className = "number";
    });
    made.querySelectorAll("tbody td").forEach((td) => {
      if (td.cellIndex > 0) td.className = "number";
    });
    node.replaceChildren(made);
    if (rows.length > MOST_LINES)
      node.append(element("p", `and ${count(rows.length - MOST_LINES)} more names`, "note"));
  };
  draw();
  return node;
}
