// The strip above the timeline: how busy each part of the whole run is, with a frame around the part
// that is in sight. The frame is dragged, by its middle or by an edge.

const MIN_FRAME = 8; // Pixels; a frame around a shorter time is made this wide.
const EDGE = 6; // Pixels from an edge at which the edge is taken, not the whole frame.
const BAND = 4; // Pixels of a band, at least.
const HIT = 6; // Height of the mark of a hit, in pixels.
const KEY_STEP = 0.1; // The part of the time in sight by which an arrow key moves it.

export class Strip {
  /** `strip`: holds the canvas and the frame. */
  constructor(strip, canvas, frame, view) {
    this.strip = strip;
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.frame = frame;
    this.view = view;
    this.answer = null; // What /api/activity answered.
    this.hits = null; // The parts that have hits of a search, {slotPs, marks}.
    this.drag = null;
    this.placed = ""; // The frame's place, as it was set last.
    strip.addEventListener("pointerdown", (event) => this.down(event));
    strip.addEventListener("pointermove", (event) => this.move(event));
    strip.addEventListener("pointerup", () => (this.drag = null));
    strip.addEventListener("pointercancel", () => (this.drag = null));
    strip.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    frame.addEventListener("keydown", (event) => this.key(event));
  }

  /** Asks how busy the view's run is. */
  async load() {
    const { run } = this.view;
    this.answer = null;
    this.draw();
    await run.store.begun; // The server is not kept from what is in sight.
    if (run !== this.view.run) return;
    const slots = Math.max(16, Math.min(4096, Math.round(this.canvas.clientWidth)));
    const bands = Math.max(1, Math.floor(this.canvas.clientHeight / BAND));
    // Without an answer the strip has its frame only, which is of use by itself.
    const answer = await run.api.get("activity", { slots, bands }).catch(() => null);
    if (run !== this.view.run) return;
    this.answer = answer;
    this.draw();
  }

  // ---- Times and places -------------------------------------------------------------------------

  /** {begin, end}: the time that the strip shows. */
  get whole() {
    const { beginPs, endPs } = this.view.run.description;
    const margin = (endPs - beginPs) * 0.01 + 1;
    return { begin: beginPs - margin, end: endPs + margin };
  }

  x(ps) {
    const { begin, end } = this.whole;
    return ((ps - begin) / (end - begin)) * this.canvas.clientWidth;
  }

  timeAt(x) {
    const { begin, end } = this.whole;
    return begin + (x / this.canvas.clientWidth) * (end - begin);
  }

  /** Left and right edge of the frame, in pixels. */
  edges() {
    const a = this.x(this.view.begin);
    const b = this.x(this.view.end);
    const more = Math.max(0, MIN_FRAME - (b - a)) / 2;
    return [a - more, b + more];
  }

  // ---- Drawing ------------------------------------------------------------------------------------

  /** Draws the strip anew: for another run, size or theme. */
  draw() {
    const { canvas, context, view } = this;
    if (!view.run) return;
    const { theme } = view.renderer;
    const ratio = devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    context.scale(ratio, ratio);
    context.fillStyle = `rgb(${theme.back})`;
    context.fillRect(0, 0, width, height);
    if (this.answer) this.drawBands(width, height, theme);
    const { window } = view.run.description;
    if (window) this.drawWindow(window, height, theme.mark);
    if (this.hits) this.drawHits(theme.text);
    this.placed = "";
    this.place();
  }

  /** The bands of workers that hold up the others have another colour, and a mark at their begin. */
  drawBands(width, height, theme) {
    const { context } = this;
    const { beginPs, slotPs, bands, workers } = this.answer;
    const { odd } = this.view.run.layout;
    const isOdd = ([first, last]) => [...odd].some((worker) => worker >= first && worker <= last);
    const each = height / Math.max(1, bands.length);
    const first = this.x(beginPs);
    const wide = this.x(beginPs + slotPs) - first; // Not asked for each slot: the browser looks it up each time.
    bands.forEach((band, number) => {
      const marked = isOdd(workers[number]);
      context.fillStyle = marked ? theme.mark : `rgb(${theme.busy})`;
      if (marked)
        context.fillRect(0, Math.round(number * each), 3, Math.max(1, Math.round(each) - 1));
      const bottom = Math.round((number + 1) * each) - 1;
      const most = Math.max(1, Math.round(each) - 1);
      band.forEach((busy, slot) => {
        if (busy === 0) return;
        const a = Math.floor(first + slot * wide);
        const b = Math.max(a + 1, Math.floor(first + (slot + 1) * wide));
        const high = Math.max(1, Math.round((most * busy) / 255));
        context.fillRect(a, bottom - high, b - a, high);
      });
    });
  }

  /** Marks where a search has found something, {slotPs, marks}; null: nowhere. */
  mark(hits) {
    if (hits === this.hits) return;
    this.hits = hits;
    this.draw();
  }

  drawHits(color) {
    const { beginPs } = this.view.run.description;
    const { slotPs, marks } = this.hits;
    this.context.fillStyle = color;
    for (const slot of marks) {
      const x = Math.round(this.x(beginPs + (slot + 0.5) * slotPs));
      this.context.fillRect(x - 1, 0, 2, HIT);
    }
  }

  /** Shows the part that the capture was asked for; the rest was recorded before and after it. */
  drawWindow({ beginPs, endPs }, height, color) {
    this.context.fillStyle = color;
    for (const ps of [beginPs, endPs]) this.context.fillRect(Math.round(this.x(ps)), 0, 1, height);
  }

  /** Places the frame; called for each frame of the timeline. */
  place() {
    const [a, b] = this.edges();
    const left = Math.max(0, a);
    const right = Math.min(this.canvas.clientWidth, b);
    const placed = `${left.toFixed(1)} ${right.toFixed(1)}`;
    if (placed === this.placed) return;
    this.placed = placed;
    this.frame.style.left = `${this.canvas.offsetLeft + left}px`;
    this.frame.style.width = `${Math.max(2, right - left)}px`;
    const middle = (this.view.begin + this.view.end) / 2;
    const { begin, end } = this.whole;
    const share = Math.max(0, Math.min(1, (middle - begin) / (end - begin)));
    this.frame.setAttribute("aria-valuenow", Math.round(100 * share));
  }

  // ---- Moving -------------------------------------------------------------------------------------

  down(event) {
    if (event.button !== 0 || !this.view.run) return;
    event.preventDefault();
    this.strip.setPointerCapture(event.pointerId);
    const x = this.placeIn(event);
    const [a, b] = this.edges();
    const wide = b - a > 4 * EDGE;
    if (wide && Math.abs(x - a) <= EDGE) this.drag = { edge: "begin" };
    else if (wide && Math.abs(x - b) <= EDGE) this.drag = { edge: "end" };
    else {
      if (x < a || x > b) this.center(this.timeAt(x));
      const { begin, end } = this.view;
      this.drag = { from: this.timeAt(x), begin, end };
    }
  }

  move(event) {
    if (!this.view.run) return;
    const x = this.placeIn(event);
    const { drag, view } = this;
    if (!drag) {
      const [a, b] = this.edges();
      const edge = b - a > 4 * EDGE && Math.min(Math.abs(x - a), Math.abs(x - b)) <= EDGE;
      this.strip.style.cursor = edge ? "ew-resize" : x >= a && x <= b ? "grab" : "pointer";
    } else if (drag.edge) {
      const at = this.timeAt(x);
      if (drag.edge === "begin") view.set(Math.min(at, view.end), view.end);
      else view.set(view.begin, Math.max(at, view.begin));
    } else {
      const shift = this.timeAt(x) - drag.from;
      view.set(drag.begin + shift, drag.end + shift);
    }
  }

  placeIn(event) {
    return event.clientX - this.canvas.getBoundingClientRect().left;
  }

  center(when) {
    const half = (this.view.end - this.view.begin) / 2;
    this.view.set(when - half, when + half);
  }

  wheel(event) {
    if (!this.view.run) return;
    event.preventDefault();
    const { begin, end } = this.view;
    const shift = (Math.sign(event.deltaY || event.deltaX) * (end - begin)) / 4;
    this.view.set(begin + shift, end + shift);
  }

  key(event) {
    const { begin, end } = this.view;
    const span = end - begin;
    const { begin: first, end: last } = this.whole;
    const begins = {
      ArrowLeft: begin - span * KEY_STEP,
      ArrowRight: begin + span * KEY_STEP,
      PageUp: begin - span,
      PageDown: begin + span,
      Home: first,
      End: last - span,
    };
    if (!Object.hasOwn(begins, event.key)) return;
    event.preventDefault();
    event.stopPropagation(); // Arrows step from event to event otherwise.
    this.view.set(begins[event.key], begins[event.key] + span);
  }
}
