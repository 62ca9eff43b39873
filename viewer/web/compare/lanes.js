// Two timelines, one below the other on a common zero: what moves one moves the other.
import { Coloring } from "../timeline/coloring.js";
import { element } from "../shared/elements.js";
import { count } from "../shared/format.js";
import { Hint } from "../timeline/hint.js";
import { Labels } from "../timeline/labels.js";
import { Layout } from "../timeline/layout.js";
import { AXIS, Renderer } from "../timeline/renderer.js";
import { TileStore } from "../timeline/tiles.js";
import { MIN_SPAN, View } from "../timeline/view.js";

const ZOOM = 1.3; // A key's, or a notch of the wheel's.
const PAN = 0.1; // The part of the time in sight by which a key moves.
const SCROLL = 60; // Pixels of a key.

class Lane {
  /** `box`: where it lies; `letter`: what the side is called. */
  constructor(box, letter, failed) {
    this.box = box;
    this.letter = letter;
    this.failed = failed;
    const names = element("div", "", "names");
    this.canvas = element("canvas", "", "scene");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `Timeline of ${letter}; W, A, S and D move both`);
    const hint = element("div", "", "hint");
    hint.hidden = true;
    box.replaceChildren(names, this.canvas, hint);
    this.renderer = new Renderer(this.canvas);
    this.view = new View(
      this.renderer,
      box,
      names,
      () => {},
      () => {},
    );
    this.labels = new Labels(names, {
      toggleSection: (key) => this.arrange((layout) => layout.toggleSection(key)),
      toggleRow: (row) => this.arrange((layout) => layout.toggleRow(row)),
    });
    this.hint = new Hint(hint, box, this.canvas, this.view);
    this.coloring = new Coloring(this.view);
  }

  /** `side`: {api, description, worker, title}; `worker` is null for all of them. */
  show({ api, description, worker, title }) {
    const { view } = this;
    view.run?.store.close();
    const layout = new Layout(description);
    if (worker !== null) {
      layout.sections = layout.sections.filter(
        ({ rows }) => rows.length > 0 && description.rows[rows[0]].worker === worker,
      );
      layout.update();
    }
    view.run = {
      api,
      description,
      store: new TileStore(api, description, () => view.redraw(), this.failed),
      layout,
    };
    view.top = 0;
    this.title = title;
    this.coloring.open(view.run);
    this.resize();
  }

  resize() {
    if (!this.view.run) return;
    this.view.fit(this.box.clientHeight);
    this.view.resize();
  }

  arrange(change) {
    change(this.view.run.layout);
    this.view.arrange();
  }

  /** Draws it; `at`: the pointer's place on either of both, in pixels, or null. */
  draw(at) {
    const { view, renderer } = this;
    const { description, store, layout } = view.run;
    view.dirty = false;
    const bands = view.bands();
    renderer.draw(view, bands, store, view.level(), () => {});
    this.line(renderer.x(view.zero, view), renderer.theme.mark);
    if (at !== null) this.line(at, renderer.theme.grid);
    this.labels.draw(description, layout, bands, renderer.height);
    this.labels.note(`${this.letter}: ${this.title}\n${view.sectionAbove()?.title ?? ""}`);
    view.load();
  }

  line(x, color) {
    const { context, height } = this.renderer;
    context.fillStyle = color;
    context.fillRect(Math.floor(x), AXIS, 1, height - AXIS);
  }
}

export class Lanes {
  /** `boxes`: the elements of A and B. `failed(error)`. */
  constructor(boxes, failed) {
    this.lanes = boxes.map((box, i) => new Lane(box, "AB"[i], failed));
    this.begin = 0; // In ps, from the zeros.
    this.end = 1;
    this.at = null;
    for (const lane of this.lanes) this.listen(lane);
    const frame = () => {
      for (const lane of this.lanes) if (lane.view.run && lane.view.dirty) lane.draw(this.at);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  /** `sides`: of A and B, as Lane has them. */
  show(sides) {
    this.lanes.forEach((lane, i) => lane.show(sides[i]));
  }

  /** Sets the times that both begin at, and shows `length` from there on; without it, all. */
  align(zeros, length = 0) {
    this.lanes.forEach(({ view }, i) => (view.zero = zeros[i]));
    if (length > 0) this.set(-0.05 * length, 1.05 * length);
    else this.showAll();
  }

  /** {low, high}: the times of both, from the zeros. */
  get whole() {
    const edges = this.lanes.map(({ view: { run, zero } }) => ({
      low: run.description.beginPs - zero,
      high: run.description.endPs - zero,
    }));
    return {
      low: Math.min(...edges.map(({ low }) => low)),
      high: Math.max(...edges.map(({ high }) => high)),
    };
  }

  showAll() {
    const { low, high } = this.whole;
    const margin = (high - low) * 0.01 + 1;
    this.set(low - margin, high + margin);
  }

  /** Shows [begin, end) from the zeros, within limits: a part of either always stays in sight. */
  set(begin, end) {
    const { low, high } = this.whole;
    const span = Math.min(Math.max(end - begin, MIN_SPAN), 1.2 * (high - low) + MIN_SPAN);
    const middle = Math.min(Math.max((begin + end) / 2, low), high);
    this.begin = middle - span / 2;
    this.end = middle + span / 2;
    for (const { view } of this.lanes) {
      view.begin = view.zero + this.begin;
      view.end = view.zero + this.end;
      view.settle();
    }
  }

  /** Zooms about a place, in pixels. */
  zoom(factor, x) {
    const at = this.begin + (x / this.lanes[0].renderer.width) * (this.end - this.begin);
    this.set(at - (at - this.begin) * factor, at + (this.end - at) * factor);
  }

  pan(share) {
    const shift = share * (this.end - this.begin);
    this.set(this.begin + shift, this.end + shift);
  }

  setTheme(theme) {
    for (const { renderer } of this.lanes) renderer.setTheme(theme);
    this.redraw();
  }

  /** matches(name): whether events of this name are lit, and the others pale; null: all are lit. */
  highlight(matches) {
    for (const { renderer } of this.lanes) renderer.setHighlight(matches);
    this.redraw();
  }

  resize() {
    for (const lane of this.lanes) lane.resize();
  }

  redraw() {
    for (const { view } of this.lanes) view.redraw();
  }

  // ---- Mouse and keyboard -----------------------------------------------------------------------

  listen(lane) {
    const { canvas, view } = lane;
    lane.box.addEventListener("wheel", (event) => this.wheel(event, lane), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event, lane));
    let last = null; // Where the pointer was that drags.
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !view.run) return;
      canvas.setPointerCapture(event.pointerId);
      last = event;
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!view.run) return;
      this.at = event.offsetX;
      if (last) {
        this.pan((last.offsetX - event.offsetX) / lane.renderer.width);
        view.scroll(last.offsetY - event.offsetY);
        last = event;
      }
      lane.hint.show({ x: event.offsetX, y: event.offsetY });
      this.redraw();
    });
    for (const type of ["pointerup", "pointercancel"])
      canvas.addEventListener(type, () => (last = null));
    canvas.addEventListener("pointerleave", () => {
      this.at = null;
      lane.hint.hide();
      this.redraw();
    });
  }

  wheel(event, { view, renderer }) {
    if (!view.run) return;
    const { deltaX, deltaY } = event;
    const sign = Math.sign(deltaY || deltaX);
    const { top } = view;
    if (event.ctrlKey || event.metaKey) this.zoom(ZOOM ** sign, event.offsetX);
    else if (event.shiftKey) this.pan(sign * PAN);
    else if (Math.abs(deltaX) > Math.abs(deltaY)) this.pan(deltaX / renderer.width);
    else {
      view.scroll(deltaY);
      if (view.top === top) return; // The page scrolls instead.
    }
    event.preventDefault();
  }

  key(event, { view, renderer }) {
    if (!view.run || event.ctrlKey || event.altKey || event.metaKey) return;
    const middle = this.at ?? renderer.width / 2;
    const actions = {
      w: () => this.zoom(1 / ZOOM, middle),
      s: () => this.zoom(ZOOM, middle),
      a: () => this.pan(-PAN),
      d: () => this.pan(PAN),
      ArrowLeft: () => this.pan(-PAN),
      ArrowRight: () => this.pan(PAN),
      ArrowUp: () => view.scroll(-SCROLL),
      ArrowDown: () => view.scroll(SCROLL),
      0: () => this.showAll(),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }

  /** For tests: what is shown of each side, and whether more is on its way. */
  get state() {
    return this.lanes.map(({ view }) => ({
      begin: view.begin,
      end: view.end,
      zero: view.zero,
      rows: view.run ? view.rows().length : 0,
      idle: view.idle && view.run.store.lacking === 0,
      events: count(view.run?.description.events ?? 0),
    }));
  }
}
