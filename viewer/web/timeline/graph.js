// The HLO graph around an instruction, drawn in the panel. Texts come from traces, which may be
// hostile, so they are only ever set as text.
import { element } from "../shared/elements.js";
import { count } from "../shared/format.js";
import { layer } from "./layers.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 190; // A node's width in pixels.
const HEIGHT = 38;
const PASS = 6; // Width of the place that an edge has in a layer that it crosses.
const GAP_X = 18;
const GAP_Y = 34;
const LETTERS = 27; // How many fit into a node.
const MAX_NODES = 400; // After expanding; more cannot be read.
const FAN = 40; // Operands and users that are added at once.

export class Graph {
  /** `actions`: find(text), back() to the selected event, told(message). */
  constructor(view, panel, actions) {
    this.view = view;
    this.panel = panel;
    this.actions = actions;
    this.question = 0; // Number of the latest question; older answers are dropped.
  }

  /** Shows the graph around an XLA op; `hlo` as /api/event answers. */
  async open(hlo) {
    this.hlo = hlo;
    try {
      const answer = await this.ask(hlo.instruction, {});
      if (!answer) return;
      this.info = answer;
      this.nodes = new Map(answer.nodes.map((node) => [node.id, node]));
      this.edges = answer.edges;
      this.chosen = answer.centre;
      this.show();
    } catch (error) {
      this.actions.told(error.message);
    }
  }

  /** The server's answer; null if meanwhile something else was asked, or another run opened. */
  async ask(instruction, more) {
    const number = ++this.question;
    const { run } = this.view;
    const { worker, module, program } = this.hlo;
    const question = { worker, module, instruction, ...more };
    if (program !== null) question.program = program;
    const answer = await run.api.get("graph", question);
    return number === this.question && run === this.view.run ? answer : null;
  }

  /** Adds the operands and users of the chosen node. */
  async expand() {
    const { name, id } = this.nodes.get(this.chosen);
    if (this.nodes.size >= MAX_NODES)
      return this.actions.told(`${count(MAX_NODES)} instructions are shown; open another one.`);
    try {
      const limit = Math.min(1 + 2 * FAN, MAX_NODES);
      const answer = await this.ask(name, { levels: 1, fan: FAN, limit });
      if (!answer) return;
      for (const node of answer.nodes) this.nodes.set(node.id, node);
      const known = new Set(this.edges.map(([from, to]) => `${from} ${to}`));
      for (const edge of answer.edges) if (!known.has(edge.join(" "))) this.edges.push(edge);
      this.chosen = id;
      this.show();
    } catch (error) {
      this.actions.told(error.message);
    }
  }

  show() {
    const { module, computation, instructions, missing } = this.info;
    const all = `${count(this.nodes.size)} of ${count(instructions)} instructions of ${computation}`;
    const damaged = missing > 0 ? `; ${count(missing)} operands are missing` : "";
    this.text = element("div", "", "graph-text");
    this.drawing = this.draw();
    const box = element("div", "", "graph-box");
    box.append(this.drawing);
    const head = element("div", "", "graph-head");
    head.append(
      button("← The selected event", () => this.actions.back()),
      element("p", `${all}${damaged}. Operands above, users below.`, "note"),
    );
    this.panel.show("graph", `HLO graph of ${module}`, head, box, this.text);
    this.choose(this.chosen);
    const { x, y } = this.places.get(this.chosen);
    box.scrollTo(x - box.clientWidth / 2, y - (box.clientHeight - HEIGHT) / 2);
  }

  draw() {
    const { layers, ways } = layer([...this.nodes.values()], this.edges);
    const widthOf = (id) => (this.nodes.has(id) ? WIDTH : PASS) + GAP_X;
    const widths = layers.map((ids) => ids.reduce((sum, id) => sum + widthOf(id), 0));
    const widest = Math.max(...widths);
    const places = (this.places = new Map()); // The middle of each id's upper edge.
    layers.forEach((ids, number) => {
      let x = (widest - widths[number]) / 2;
      for (const id of ids) {
        const y = number * (HEIGHT + GAP_Y) + GAP_Y / 2;
        places.set(id, { x: x + widthOf(id) / 2, y });
        x += widthOf(id);
      }
    });
    const height = layers.length * (HEIGHT + GAP_Y);
    const svg = make("svg", { class: "graph", width: widest, height });
    for (const way of ways) svg.append(...edge(way, places));
    for (const node of this.nodes.values()) {
      const { x, y } = places.get(node.id);
      svg.append(this.node(node, { x: x - WIDTH / 2, y }));
    }
    return svg;
  }

  node(node, { x, y }) {
    const group = make("g", {
      class: node.id === this.info.centre ? "node centre" : "node",
      transform: `translate(${x} ${y})`,
      tabindex: 0,
      role: "button",
      "data-id": node.id,
    });
    const title = make("title", {});
    title.textContent = node.text;
    group.append(title, make("rect", { width: WIDTH, height: HEIGHT, rx: 4 }));
    const hidden = node.operands + node.users - this.shownOf(node.id);
    group.append(
      line(cut(node.name, hidden > 0 ? LETTERS - 5 : LETTERS), 8, 15, "name"),
      line(cut(`${node.opcode} ${node.shape}`, LETTERS + 3), 8, 30, "shape"),
    );
    if (hidden > 0) group.append(line(`+${count(hidden)}`, WIDTH - 6, 15, "more"));
    group.onclick = () => this.choose(node.id);
    group.ondblclick = () => this.expand();
    group.onkeydown = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      event.stopPropagation();
      this.choose(node.id);
    };
    return group;
  }

  /** How many operands and users of a node are drawn. */
  shownOf(id) {
    return this.edges.filter(([from, to]) => from === id || to === id).length;
  }

  /** Shows what is known of a node below the graph. */
  choose(id) {
    this.chosen = id;
    for (const group of this.drawing.querySelectorAll(".node"))
      group.classList.toggle("chosen", group.dataset.id === String(id));
    for (const path of this.drawing.querySelectorAll(".edge"))
      path.classList.toggle("chosen", path.dataset.ends.split(" ").includes(String(id)));
    const node = this.nodes.get(id);
    const facts = [
      node.op && `Framework op: ${node.op}`,
      node.source && `Source: ${node.source}`,
      `${count(node.operands)} operands, ${count(node.users)} users`,
    ].filter(Boolean);
    const buttons = element("div", "", "graph-buttons");
    buttons.append(
      button("Show operands and users", () => this.expand()),
      button("Find its events", () => this.actions.find(node.name)),
      ...node.calls.map((call) =>
        button(`Open ${call.computation}`, () =>
          this.open({ ...this.hlo, instruction: call.root }),
        ),
      ),
    );
    this.text.replaceChildren(
      element("pre", node.text),
      element("p", facts.join("; "), "note"),
      buttons,
    );
  }
}

/** A link to the graph in XProf, which reads the same trace. The event is an answer of /api/event. */
export function xprofLink(url, { run, worker, hlo }) {
  const query = new URLSearchParams({ tool: "graph_viewer", run, host: worker });
  if (hlo.module) query.set("module_name", moduleName(hlo));
  query.set("node_name", hlo.instruction);
  const link = element("a", `${hlo.instruction} in XProf's Graph Viewer`);
  link.href = `${url.replace(/\/+$/, "")}/?${query}#profile`;
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  return link;
}

/** The address of a run in XProf, at the overview of its tools. */
export function xprofRun(url, run) {
  return `${url.replace(/\/+$/, "")}/?${new URLSearchParams({ tool: "overview_page", run })}#profile`;
}

/** XProf's name of a module: with the program's id. */
function moduleName({ module, program }) {
  return program === null || module.endsWith(")") ? module : `${module}(${program})`;
}

/** The line of an edge and its head. It passes straight through layers that it only crosses. */
function edge(way, places) {
  const points = way.map((id) => places.get(id));
  let d = `M${points[0].x} ${points[0].y + HEIGHT}`;
  for (let i = 1; i < points.length; ++i) {
    const { x: x0, y: y0 } = points[i - 1];
    const { x: x1, y: y1 } = points[i];
    const from = y0 + HEIGHT;
    d += ` C${x0} ${from + GAP_Y / 2} ${x1} ${y1 - GAP_Y / 2} ${x1} ${y1}`;
    if (i + 1 < points.length) d += ` V${y1 + HEIGHT}`;
  }
  const { x, y } = points.at(-1);
  return [
    make("path", { d, class: "edge", "data-ends": `${way[0]} ${way.at(-1)}` }),
    make("path", { d: `M${x} ${y} l-4 -7 h8 z`, class: "head" }),
  ];
}

function cut(text, letters) {
  return text.length > letters ? `${text.slice(0, letters - 1)}…` : text;
}

function line(text, x, y, className) {
  const node = make("text", { x, y, class: className });
  node.textContent = text;
  return node;
}

function make(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function button(text, onclick) {
  const node = element("button", text);
  node.onclick = onclick;
  return node;
}
