// The mouse: tools, dragging, wheel, and the hint beside the pointer.
import { count, exact } from "./format.js";
import { itemAt, snap, snapExactly } from "./pick.js";
import { AXIS } from "./renderer.js";
import { unitOf } from "./tiles.js";

const MIN_DRAG = 4; // Pixels; less is a click.
const HINT_REST_MS = 60; // Rest of the pointer before the server is asked for exact times.
const LINE = 16; // Pixels of a wheel's step, where the browser counts in lines.
const CURSORS = { select: "default", pan: "grab", zoom: "zoom-in", timing: "col-resize" };

const $ = (id) => document.getElementById(id);

/** {begin, end} of two times in any order. */
function interval(a, b) {
  return { begin: Math.min(a, b), end: Math.max(a, b) };
}

/** Whether an item of a tile, in steps of `unit`, is a part of the event that /api/event answered. */
function isWithin({ row, track, beginPs, durationPs }, item, unit) {
  if (row !== item.row || track !== item.track) return false;
  const middle = (item.begin + item.end) / 2;
  const slack = unit * 0.49; // Tiles round; an item's middle is at least half a unit inside of it.
  return beginPs - slack <= middle && middle <= beginPs + durationPs + slack;
}

export class Pointer {
  constructor(canvas, view, selection, notices) {
    this.canvas = canvas;
    this.view = view;
    this.selection = selection;
    this.notices = notices;
    this.tool = "select";
    this.place = null; // {x, y} while the pointer is over the canvas.
    this.drag = null; // Where a press began and was last seen, while a button is down.
    this.box = null; // {x0, y0, x1, y1} that is being drawn.
    this.timing = null; // {begin, end} that the timing tool measures.
    this.known = null; // The event under the pointer, as /api/event answered.
    this.hintTimer = 0;
    this.listen();
  }

  listen() {
    const { canvas } = this;
    const on = (name, listener) =>
      canvas.addEventListener(name, (event) => this.view.run && listener(event));
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.up(event));
    on("pointercancel", () => this.cancel());
    on("pointerleave", () => this.leave());
    on("dblclick", () => this.selection.events.length > 0 && this.selection.zoom());
    // Not passive: the page itself must neither scroll nor zoom.
    for (const element of [canvas, $("labels")])
      element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    for (const button of $("tools").children)
      button.onclick = () => this.setTool(button.dataset.tool);
  }

  setTool(tool) {
    this.tool = tool;
    for (const button of $("tools").children)
      button.setAttribute("aria-pressed", String(button.dataset.tool === tool));
    this.canvas.style.cursor = CURSORS[tool];
  }

  down(event) {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.focus();
    const { offsetX: x, offsetY: y } = event;
    const add = event.ctrlKey || event.metaKey;
    this.drag = { x, y, lastX: x, lastY: y, moved: false, add };
    this.hint(null);
  }

  move(event) {
    const { offsetX: x, offsetY: y } = event;
    const { drag, view } = this;
    this.place = { x, y };
    view.redraw();
    if (!drag) return this.hint(this.place);
    if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > MIN_DRAG) drag.moved = true;
    if (!drag.moved) return;
    if (this.tool === "pan") {
      view.pan(drag.lastX - x);
      view.scroll(drag.lastY - y);
    } else if (this.tool === "timing") {
      this.timing = interval(snap(view, drag.x, drag.y).when, snap(view, x, y).when);
    } else if (this.tool === "zoom") {
      this.box = { x0: drag.x, y0: AXIS, x1: x, y1: view.renderer.height };
    } else {
      this.box = { x0: drag.x, y0: drag.y, x1: x, y1: y };
    }
    drag.lastX = x;
    drag.lastY = y;
  }

  async up(event) {
    const { drag, box, tool, view } = this;
    if (!drag) return;
    const { offsetX: x, offsetY: y } = event;
    this.drag = null;
    this.box = null;
    view.redraw();
    if (tool === "timing" && drag.moved) return this.measure(drag, { x, y });
    if (tool === "zoom") {
      if (!drag.moved) return view.zoom(0.5, x);
      if (box) {
        // A vertical drag chooses no time.
        if (Math.abs(box.x1 - box.x0) < MIN_DRAG) return;
        const { begin, end } = interval(view.timeAt(box.x0), view.timeAt(box.x1));
        return view.set(begin, end);
      }
    }
    if (tool === "select" && box) return this.selection.selectBox(box);
    if (!drag.moved) await this.click(x, y, drag.add);
  }

  /** Replaces the dragged interval by the exact one. */
  async measure(from, to) {
    const [a, b] = await Promise.all([
      snapExactly(this.view, from.x, from.y),
      snapExactly(this.view, to.x, to.y),
    ]);
    this.timing = interval(a, b);
    this.notices.say(exact(Math.abs(b - a)));
    this.view.redraw();
  }

  /** Selects the event under the pointer; with `add`, in addition to the others. */
  async click(x, y, add) {
    const item = itemAt(this.view, x, y);
    if (!item) return add ? undefined : this.selection.clear();
    const { row, track, begin, end } = item;
    const single = item.count === 1;
    // An item of many events lets the server choose the longest that begins within its time.
    const at = single ? Math.max(begin, Math.min(this.view.timeAt(x), end)) : begin;
    const slop = Math.max(single ? 0 : end - begin, unitOf(this.view.level()));
    await this.selection.select({ row, track, at, slop, here: single ? 1 : 0 }, add);
  }

  cancel() {
    this.drag = null;
    this.box = null;
    this.view.redraw();
  }

  leave() {
    this.place = null;
    this.hint(null);
    this.view.redraw();
  }

  wheel(event) {
    const { view } = this;
    if (!view.run) return;
    event.preventDefault();
    const step = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE : 1;
    const { deltaX, deltaY } = event;
    if (event.ctrlKey || event.metaKey) {
      const over = event.currentTarget === this.canvas;
      view.zoom(1.0015 ** (deltaY * step), over ? event.offsetX : view.renderer.width / 2);
    } else if (event.shiftKey) {
      view.pan((deltaX || deltaY) * step);
    } else {
      if (deltaX) view.pan(deltaX * step);
      view.scroll(deltaY * step);
    }
  }

  /** Says what is under the pointer where it rests while the scene moves. */
  refreshHint() {
    if (this.place && !this.drag) this.hint(this.place);
  }

  /** Says beside the pointer what is under a place; without one, hides the hint. */
  hint(place) {
    const node = $("hint");
    const item = place && itemAt(this.view, place.x, place.y);
    node.hidden = !item;
    clearTimeout(this.hintTimer);
    if (!item) return;
    const busy = `${count(item.count)} events here, ${Math.round(item.busy * 100)} % busy`;
    const unit = unitOf(this.view.level());
    const known =
      this.known && isWithin(this.known, item, unit) ? exact(this.known.durationPs) : "";
    node.textContent =
      item.count === 1 ? `${item.name}\n${known}` : `${busy}\nlongest: ${item.name}`;
    node.style.whiteSpace = "pre-wrap";
    if (item.count === 1 && !known)
      this.hintTimer = setTimeout(() => this.learn(item), HINT_REST_MS);
    this.placeHint(node, place);
  }

  /** Asks for the event's exact length. Tiles round it, and know it not if it goes beyond them. */
  async learn(item) {
    const { row, track, begin, end } = item;
    const slop = unitOf(this.view.level());
    const question = { row, track, at: (begin + end) / 2, slop, here: 1 };
    const event = await this.view.run.api.get("event", question).catch(() => null);
    if (!event) return;
    this.known = event;
    this.refreshHint();
  }

  placeHint(node, { x, y }) {
    // To the right of and below the pointer, but inside of the stage.
    const stage = $("stage");
    const left = $("labels").offsetWidth + x + 14;
    const top = y + 16;
    node.style.left = `${Math.min(left, stage.clientWidth - node.offsetWidth - 4)}px`;
    node.style.top = `${Math.min(top, stage.clientHeight - node.offsetHeight - 4)}px`;
  }
}
