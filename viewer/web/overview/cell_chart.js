// A chart of cells in rows and columns, of which each leads to a place in the timeline. The pointer
// or the arrow keys choose a cell; what it tells stands below the chart.

const AXIS = 16; // Pixels for the columns' names.
const MIN_CELL = 3;
const MAX_CELL = 48;
const MAX_LABEL = 160;
const SCALE = 64; // Pixels for the ends of a scale.
const FONT = "11px system-ui, sans-serif";

export class CellChart {
  /**
   * `name`: for screen readers. `rows`, `columns`: how many. `rowHeight`: pixels. rowName(row), or
   * null without names; scale: [text at the top, text at the bottom] instead; columnName(column); describe(row, column): a text; go(row, column);
   * paint(context, row, column, {x, y, width, height}, color): draws a cell with the page's colours,
   * color("--accent"). say(text): for screen readers.
   */
  constructor(model) {
    this.model = model;
    this.chosen = null; // {row, column}
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute(
      "aria-label",
      `${model.name}. Arrow keys choose a cell; Enter shows it in the timeline.`,
    );
    this.readout = document.createElement("p");
    this.readout.className = "readout";
    this.box = document.createElement("div");
    this.box.className = "chart-box";
    this.box.append(this.canvas);
    this.element = document.createElement("div");
    this.element.className = "chart";
    this.element.append(this.box, this.readout);
    this.canvas.addEventListener("pointermove", (event) => this.choose(this.cellAt(event), false));
    this.canvas.addEventListener("pointerleave", () => this.choose(null, false));
    this.canvas.addEventListener("click", (event) => this.go(this.cellAt(event)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.choose(null, false);
  }

  /** Draws it anew, as wide as its place is. */
  draw() {
    const { model, canvas } = this;
    const context = canvas.getContext("2d");
    const room = this.box.clientWidth;
    if (room === 0) return;
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const names = model.rowName ? Math.min(MAX_LABEL, Math.round(room * 0.3)) : 0;
    this.label = model.scale ? SCALE : names;
    const fitting = (room - this.label) / model.columns;
    this.cell = Math.max(MIN_CELL, Math.min(MAX_CELL, fitting));
    const width = Math.ceil(this.label + this.cell * model.columns);
    const height = model.rows * model.rowHeight + AXIS;
    const ratio = devicePixelRatio || 1;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.scale(ratio, ratio);
    context.font = FONT;
    context.textBaseline = "middle";
    for (let row = 0; row < model.rows; ++row)
      for (let column = 0; column < model.columns; ++column)
        model.paint(context, row, column, this.boxOf(row, column), color);
    context.fillStyle = color("--soft");
    this.drawNames(context);
    if (this.chosen) {
      const { x, y, width: w, height: h } = this.boxOf(this.chosen.row, this.chosen.column);
      context.strokeStyle = color("--text");
      context.lineWidth = 2;
      context.strokeRect(x, y, w, h);
    }
  }

  drawNames(context) {
    const { model } = this;
    if (model.rowName) {
      for (let row = 0; row < model.rows; ++row) {
        const { y, height } = this.boxOf(row, 0);
        context.fillText(cut(context, model.rowName(row), this.label - 8), 0, y + height / 2);
      }
    }
    if (model.scale) {
      const [top, bottom] = model.scale;
      context.fillText(top, 0, AXIS / 2);
      context.fillText(bottom, 0, model.rows * model.rowHeight - AXIS / 2);
    }
    const y = model.rows * model.rowHeight + AXIS / 2;
    let free = 0; // Where the next name has room.
    for (let column = 0; column < model.columns; ++column) {
      const { x } = this.boxOf(0, column);
      const name = model.columnName(column);
      const end = x + context.measureText(name).width;
      if (x < free || end > this.label + this.cell * model.columns) continue;
      context.fillText(name, x, y);
      free = end + 12;
    }
  }

  boxOf(row, column) {
    const gap = this.cell > 5 ? 1 : 0;
    return {
      x: this.label + column * this.cell,
      y: row * this.model.rowHeight,
      width: Math.max(1, this.cell - gap),
      height: this.model.rowHeight - 1,
    };
  }

  cellAt({ offsetX, offsetY }) {
    const column = Math.floor((offsetX - this.label) / this.cell);
    const row = Math.floor(offsetY / this.model.rowHeight);
    const inside = column >= 0 && column < this.model.columns && row >= 0 && row < this.model.rows;
    return inside ? { row, column } : null;
  }

  choose(cell, aloud) {
    const same = cell?.row === this.chosen?.row && cell?.column === this.chosen?.column;
    if (same && this.readout.textContent) return;
    this.chosen = cell;
    const text = cell ? this.model.describe(cell.row, cell.column) : "";
    this.readout.textContent = text || "Hover for values, click to open in the timeline.";
    this.canvas.style.cursor = cell ? "pointer" : "";
    if (aloud) this.model.say(text);
    this.draw();
  }

  go(cell) {
    if (cell) this.model.go(cell.row, cell.column);
  }

  key(event) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      return this.go(this.chosen);
    }
    const { row, column } = this.chosen ?? { row: 0, column: 0 };
    const { rows, columns } = this.model;
    const next = {
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      Home: [row, 0],
      End: [row, columns - 1],
    }[event.key];
    if (!next) return;
    event.preventDefault();
    const [to, at] = this.chosen ? next : [0, 0];
    const clamp = (value, most) => Math.max(0, Math.min(value, most - 1));
    this.choose({ row: clamp(to, rows), column: clamp(at, columns) }, true);
  }
}

/** The text, or as much of it as has room. */
function cut(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > room) --length;
  return `${text.slice(0, length)}…`;
}

/** Diagonal lines over a box: it is not decidable what is there. */
export function hatch(context, { x, y, width, height }, color) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = color;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = -height; at < width; at += 4) {
    context.moveTo(x + at, y + height);
    context.lineTo(x + at + height, y);
  }
  context.stroke();
  context.restore();
}
