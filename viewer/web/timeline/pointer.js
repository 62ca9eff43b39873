// The mouse and fingers: tools, dragging, wheel, pinching.
import { exact } from "../shared/format.js";
import { itemAt, snap, snapExactly } from "./pick.js";
import { AXIS } from "./renderer.js";
import { unitOf } from "./tiles.js";

const MIN_DRAG = 4; // Pixels; less is a click.
const MIDDLE = 1; // The number of a mouse's middle button.
const LINE = 16; // Pixels of a wheel's step, where the browser counts in lines.
const CURSORS = { select: "default", pan: "grab", zoom: "zoom-in", timing: "col-resize" };

const $ = (id) => document.getElementById(id);

function toolButtons() {
  return document.querySelectorAll("#tools [data-tool]");
}

/** {begin, end} of two times in any order. */
function interval(a, b) {
  return { begin: Math.min(a, b), end: Math.max(a, b) };
}

export class Pointer {
  constructor(canvas, view, selection, marks, hint, notices) {
    this.canvas = canvas;
    this.view = view;
    this.selection = selection;
    this.marks = marks;
    this.hint = hint;
    this.notices = notices;
    this.tool = "select";
    this.place = null; // {x, y} while the pointer is over the canvas.
    this.drag = null; // Where a press began and was last seen, while a button is down.
    this.box = null; // {x0, y0, x1, y1} that is being drawn.
    this.timing = null; // {begin, end} that is being dragged.
    this.touches = new Map(); // Where each finger is, {x, y} by its pointer's number.
    this.clicked = null; // Resolves when the last click is answered.
    this.listen();
  }

  listen() {
    const { canvas } = this;
    const on = (name, listener) =>
      canvas.addEventListener(name, (event) => this.view.run && listener(event));
    on("pointerdown", (event) => this.down(event));
    on("pointermove", (event) => this.move(event));
    on("pointerup", (event) => this.up(event));
    // The middle button would make the browser scroll.
    on("mousedown", (event) => event.button === MIDDLE && event.preventDefault());
    on("pointercancel", (event) => this.lift(event) || this.cancel());
    on("pointerleave", () => this.leave());
    on("dblclick", () => this.zoomToClicked());
    // Not passive: the page itself must neither scroll nor zoom.
    for (const element of [canvas, $("labels")])
      element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    for (const button of toolButtons()) button.onclick = () => this.setTool(button.dataset.tool);
  }

  setTool(tool) {
    this.tool = tool;
    for (const button of toolButtons())
      button.setAttribute("aria-pressed", String(button.dataset.tool === tool));
    this.canvas.style.cursor = CURSORS[tool];
  }

  down(event) {
    if (event.button !== 0 && event.button !== MIDDLE) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.focus();
    const { offsetX: x, offsetY: y } = event;
    if (event.pointerType === "touch") this.touches.set(event.pointerId, { x, y });
    if (this.touches.size > 1) return this.cancel(); // Two fingers zoom.
    const add = event.ctrlKey || event.metaKey;
    // An edge is taken where no event can be meant: in the axis or, with the timing tool, anywhere.
    const edge = y < AXIS || this.tool === "timing" ? this.marks.edgeAt(x) : null;
    const tool = this.toolFor(event);
    this.drag = { x, y, lastX: x, lastY: y, moved: false, tool, add, edge };
    this.hint.hide();
  }

  /** The tool of a drag: with Shift or the middle button it pans, in the axis it marks a time. */
  toolFor({ button, shiftKey, offsetY, pointerType }) {
    if (button === MIDDLE || shiftKey) return "pan";
    // One finger moves what is in sight, as it does on other pages.
    if (pointerType === "touch" && this.tool === "select" && offsetY >= AXIS) return "pan";
    return this.tool === "select" && offsetY < AXIS ? "timing" : this.tool;
  }

  move(event) {
    const { offsetX: x, offsetY: y } = event;
    const { drag, view } = this;
    if (this.touches.size > 1) return this.pinch(event);
    this.place = { x, y };
    view.redraw();
    if (!drag) return this.over(this.place);
    if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > MIN_DRAG) drag.moved = true;
    if (!drag.moved) return;
    if (drag.edge) {
      this.timing = interval(drag.edge.still, snap(view, x, y).when);
    } else if (drag.tool === "pan") {
      view.pan(drag.lastX - x);
      view.scroll(drag.lastY - y);
    } else if (drag.tool === "timing") {
      this.timing = interval(snap(view, drag.x, drag.y).when, snap(view, x, y).when);
    } else if (drag.tool === "zoom") {
      this.box = { x0: drag.x, y0: AXIS, x1: x, y1: view.renderer.height };
    } else {
      this.box = { x0: drag.x, y0: drag.y, x1: x, y1: y };
    }
    drag.lastX = x;
    drag.lastY = y;
  }

  /** Two fingers zoom: what was below each of them stays there. The first two of them count. */
  pinch({ pointerId, offsetX, offsetY }) {
    const { touches, view } = this;
    const before = [...touches.values()].slice(0, 2);
    if (touches.has(pointerId)) touches.set(pointerId, { x: offsetX, y: offsetY });
    const after = [...touches.values()].slice(0, 2);
    const apart = ([a, b]) => Math.max(MIN_DRAG, Math.abs(a.x - b.x));
    const middle = ([a, b]) => (a.x + b.x) / 2;
    view.zoom(apart(before) / apart(after), middle(before));
    view.pan(middle(before) - middle(after));
  }

  /** A finger was lifted, if it was one. True if several were there: it has clicked nothing. */
  lift({ pointerId }) {
    const several = this.touches.size > 1;
    this.touches.delete(pointerId);
    return several;
  }

  /** Shows what the pointer is over while no button is down. */
  over(place) {
    const edge = place.y < AXIS || this.tool === "timing" ? this.marks.edgeAt(place.x) : null;
    this.canvas.style.cursor = edge ? "ew-resize" : CURSORS[this.tool];
    this.hint.show(place);
  }

  /** Says what is under a pointer that rests while the scene moves. */
  refreshHint() {
    if (this.place && !this.drag) this.hint.show(this.place);
  }

  async up(event) {
    const { drag, box, view } = this;
    if (this.lift(event) || !drag) return;
    const { tool } = drag;
    const { offsetX: x, offsetY: y } = event;
    this.drag = null;
    this.box = null;
    view.redraw();
    if (drag.edge && drag.moved) return this.moveEdge(drag.edge, { x, y });
    if (y < AXIS && !drag.moved && this.marks.at(x)) return this.touch(this.marks.at(x));
    if (tool === "timing" && this.timing) return this.measure(drag, { x, y });
    if (tool === "zoom") {
      if (!drag.moved) return view.zoom(0.5, x);
      if (box) {
        // A vertical drag chooses no time.
        if (Math.abs(box.x1 - box.x0) < MIN_DRAG) return;
        const { begin, end } = interval(view.timeAt(box.x0), view.timeAt(box.x1));
        return view.set(begin, end);
      }
    }
    if (tool === "select" && box) return this.selection.selectBox(box, drag.add);
    if (drag.moved || event.button !== 0) return;
    this.clicked = this.click(x, y, drag.add);
    await this.clicked;
  }

  /** The server's answer to the click may come after the double click. */
  async zoomToClicked() {
    const { run } = this.view;
    await this.clicked;
    if (run === this.view.run && this.selection.events.length > 0) this.selection.zoom();
  }

  /** Marks the dragged time, with the exact times of the events' edges. */
  async measure(from, to) {
    const { run } = this.view;
    const [a, b] = await Promise.all([
      snapExactly(this.view, from.x, from.y),
      snapExactly(this.view, to.x, to.y),
    ]);
    if (run !== this.view.run) return;
    this.timing = null;
    this.view.redraw();
    if (a === b) return;
    this.marks.add(interval(a, b));
    this.notices.say(exact(Math.abs(b - a)));
  }

  /** Moves an edge of a mark to a point. */
  async moveEdge({ mark, still }, { x, y }) {
    const { run } = this.view;
    const moved = await snapExactly(this.view, x, y);
    if (run !== this.view.run) return;
    this.timing = null;
    Object.assign(mark, interval(still, moved));
    this.touch(mark);
  }

  /** Makes a mark the one that the keys F and M act on. */
  touch(mark) {
    this.marks.active = mark;
    this.notices.say(exact(mark.end - mark.begin));
    this.view.settle();
  }

  /** Selects the event under the pointer; with `add`, in addition to the others. */
  async click(x, y, add) {
    const item = itemAt(this.view, x, y);
    if (!item) return add ? undefined : this.selection.clear();
    const { single, row, track, begin, end } = item;
    // An item of many events lets the server choose the longest that begins within its time.
    const at = single ? Math.max(begin, Math.min(this.view.timeAt(x), end)) : begin;
    const slop = Math.max(single ? 0 : end - begin, unitOf(this.view.level()));
    await this.selection.select({ row, track, at, slop, here: single ? 1 : 0 }, add);
  }

  /** Ends a drag without effect: the browser has taken it, or another run is shown. */
  cancel() {
    this.drag = null;
    this.box = null;
    this.timing = null;
    this.view.redraw();
  }

  leave() {
    this.place = null;
    this.hint.hide();
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
}
