// The part of a run that the page shows, and where on the canvas it lies. Times are picoseconds on
// the run's clock, places are CSS pixels of the canvas.
import { SECTION } from "./layout.js";
import { AXIS } from "./renderer.js";
import { levelFor } from "./tiles.js";

export const MIN_SPAN = 200; // Picoseconds; nothing more can be seen in less.
const SETTLED_MS = 120;

/**
 * A run that is shown.
 * @typedef {{api: Api, description: object, store: TileStore, layout: Layout}} Run
 * `description` is the answer to /api/run.
 */

export class View {
  /**
   * The canvas fills what `labels` leaves of `stage`. `settled()` is called once the view has
   * rested for a moment: work that would be wasted while the user moves is done there.
   * `unfilter(why)` ends the filter of rows, which hides a row that is to be shown.
   */
  constructor(renderer, stage, labels, settled, unfilter) {
    this.renderer = renderer;
    this.stage = stage;
    this.labels = labels;
    this.settled = settled;
    this.unfilter = unfilter;
    /** @type {?Run} */
    this.run = null;
    this.begin = 0; // The times at the left and right edge.
    this.end = 1;
    this.zero = 0; // The time that the axis counts from.
    this.top = 0; // How far the rows are scrolled.
    this.dirty = true; // The next frame draws.
    this.moved = 0; // When the view or what is selected changed last, by performance.now().
    this.timer = 0;
  }

  /** True when nothing is left to load, to draw, or to do after a rest. */
  get idle() {
    return Boolean(
      this.run?.store.quiet && !this.dirty && performance.now() - this.moved > SETTLED_MS,
    );
  }

  // ---- Moving ---------------------------------------------------------------------------------

  /** Shows [begin, end), within limits: a part of the trace always stays in sight. */
  set(begin, end) {
    const { beginPs, endPs } = this.run.description;
    const whole = endPs - beginPs || 1;
    const span = Math.min(Math.max(end - begin, MIN_SPAN), 1.2 * whole + MIN_SPAN);
    const middle = (begin + end) / 2;
    this.begin = middle - span / 2;
    this.end = middle + span / 2;
    const low = beginPs - span * 0.5;
    const high = endPs + span * 0.5;
    const shift = Math.max(0, low - this.begin) - Math.max(0, this.end - high);
    this.begin += shift;
    this.end += shift;
    this.settle();
  }

  /** Shows the time that the capture asked for, or the whole run when it is not known. */
  showWindow() {
    const { beginPs, endPs, window } = this.run.description;
    // A window without events, of a damaged trace, would be an empty page.
    if (!window || window.endPs <= beginPs || window.beginPs >= endPs) return this.showAll();
    const margin = (window.endPs - window.beginPs) * 0.01 + 1;
    this.set(window.beginPs - margin, window.endPs + margin);
  }

  /** Shows the whole run from its first row. */
  showAll() {
    this.top = 0;
    const { beginPs, endPs } = this.run.description;
    const margin = (endPs - beginPs) * 0.01 + 1;
    this.set(beginPs - margin, endPs + margin);
  }

  /** Zooms about the time at `x`; a factor below 1 shows less time. */
  zoom(factor, x) {
    const at = this.timeAt(x);
    this.set(at - (at - this.begin) * factor, at + (this.end - at) * factor);
  }

  pan(pixels) {
    const shift = (pixels / this.renderer.width) * (this.end - this.begin);
    this.set(this.begin + shift, this.end + shift);
  }

  scroll(pixels) {
    const room = Math.max(0, this.run.layout.height - this.rowsHeight());
    this.top = Math.min(room, Math.max(0, this.top + pixels));
    this.settle();
  }

  /** Opens whatever hides a track of a row. */
  revealRow(row, track) {
    const { layout, description } = this.run;
    const hidden = layout.filter && !layout.filter(row) && !layout.pinned.includes(row);
    if (hidden) this.unfilter(description.rows[row].name);
    layout.reveal(row, track);
  }

  /** Brings an event into sight: opens its row, moves, and zooms if its size does not suit. */
  reveal({ row, track, beginPs, durationPs }) {
    const { layout } = this.run;
    this.revealRow(row, track);
    const span = this.end - this.begin;
    const endPs = beginPs + durationPs;
    const middle = (beginPs + endPs) / 2;
    if (durationPs > span * 0.9 || durationPs < span / 2000) {
      const wanted = Math.max(durationPs * 12, MIN_SPAN * 4);
      this.set(middle - wanted / 2, middle + wanted / 2);
    } else if (beginPs < this.begin || endPs > this.end) {
      this.set(middle - span / 2, middle + span / 2);
    }
    const item = layout.itemOf(row);
    const room = this.rowsHeight();
    if (item && !layout.pinned.includes(row)) {
      const y = item.y + (track - item.first) * layout.track;
      if (y < this.top || y + layout.track * 2 > this.top + room)
        this.scroll(y - room / 3 - this.top);
    }
  }

  /** Scrolls as little as brings a track into sight. */
  keepInSight(row, track) {
    const { layout } = this.run;
    const item = layout.itemOf(row);
    if (!item || layout.pinned.includes(row)) return;
    const y = item.y + placeIn(item, track) * layout.track;
    // One more track is seen below, so that it does not look cut.
    const low = Math.max(0, y + 2 * layout.track - this.rowsHeight());
    const high = Math.max(low, y - layout.track);
    this.scroll(Math.min(Math.max(this.top, low), high) - this.top);
  }

  /** Places the rows anew after the layout's settings were changed. */
  arrange() {
    this.run.layout.update();
    this.scroll(0); // There may be fewer rows now.
  }

  resize() {
    if (!this.run) return;
    const box = this.stage.getBoundingClientRect();
    const width = Math.max(50, box.width - this.labels.offsetWidth);
    const height = Math.max(50, box.height);
    this.renderer.canvas.style.width = `${width}px`;
    this.renderer.canvas.style.height = `${height}px`;
    this.renderer.resize(width, height, devicePixelRatio || 1);
    this.scroll(0);
  }

  /**
   * Lets few rows use the whole stage; `height`: that of the stage without a pane below it. The
   * canvas is to be resized afterwards.
   */
  fit(height) {
    if (!this.run) return;
    this.run.layout.fit(height - AXIS);
  }

  redraw() {
    this.dirty = true;
  }

  /** Draws, and calls `settled` unless there is another change before long. */
  settle() {
    this.moved = performance.now();
    this.redraw();
    clearTimeout(this.timer);
    this.timer = setTimeout(this.settled, SETTLED_MS);
  }

  // ---- Places ---------------------------------------------------------------------------------

  timeAt(x) {
    return this.begin + (x / this.renderer.width) * (this.end - this.begin);
  }

  x(ps) {
    return this.renderer.x(ps, this);
  }

  /** Level of the tiles that suit the zoom. */
  level() {
    return levelFor(this, this.renderer.width);
  }

  /** Height of the scrolled rows: what axis and pinned rows leave. */
  rowsHeight() {
    return this.renderer.height - AXIS - this.run.layout.pinHeight;
  }

  /** The scrolled rows and the pinned ones: items at `top` + item.y, clipped to [from, to). */
  bands() {
    const { layout } = this.run;
    const { height } = this.renderer;
    const below = AXIS + layout.pinHeight;
    return [
      {
        items: layout.visible(this.top, this.top + height - below),
        top: below - this.top,
        from: below,
        to: height,
      },
      { items: layout.pins, top: AXIS, from: AXIS, to: below },
    ];
  }

  /** The section of the first scrolled row when its own head is out of sight, else null. */
  sectionAbove() {
    const { layout } = this.run;
    // From a little below: a head of which less than a half is left cannot be read.
    const top = this.top + SECTION / 2;
    const [first] = this.top > 0 ? layout.visible(top, top + 1) : [];
    if (first?.type !== "row") return null;
    return layout.sections.find((section) => section.rows.includes(first.row)) ?? null;
  }

  /** Numbers of the rows in sight, each once. */
  rows() {
    const items = this.bands().flatMap((band) => band.items);
    return [...new Set(items.flatMap(({ rows }) => rows ?? []))];
  }

  /** Top of a track on the canvas, or null when it is out of sight. */
  placeOf(row, track) {
    const { layout } = this.run;
    for (const band of this.bands().reverse()) {
      const item = band.items.find((candidate) => candidate.row === row);
      if (!item) continue;
      const y = band.top + item.y + placeIn(item, track) * layout.track;
      if (y > band.from - layout.track && y < band.to) return y;
    }
    return null;
  }

  /** {row, track, item} at a height, or null. */
  rowAt(y) {
    for (const band of this.bands().reverse()) {
      if (y < band.from || y >= band.to) continue;
      const item = band.items.find(
        (candidate) => y >= band.top + candidate.y && y < band.top + candidate.y + candidate.height,
      );
      if (!item || item.type !== "row") return null;
      const track = Math.floor((y - band.top - item.y) / this.run.layout.track);
      const last = Math.max(0, item.tracks - 1);
      return { row: item.row, track: item.first + Math.min(track, last), item };
    }
    return null;
  }

  /** "row:first-last" of all tracks that touch [low, high), as /api/select reads them. */
  tracksBetween(low, high) {
    const height = this.run.layout.track;
    const tracks = [];
    for (const band of this.bands()) {
      for (const item of band.items) {
        if (item.type !== "row" || item.tracks === 0) continue;
        const top = band.top + item.y;
        const first = Math.max(0, Math.floor((Math.max(low, band.from) - top) / height));
        const last = Math.min(
          item.tracks - 1,
          Math.floor((Math.min(high, band.to) - top) / height),
        );
        if (last >= first && high > top && low < top + item.tracks * height)
          tracks.push(`${item.row}:${item.first + first}-${item.first + last}`);
      }
    }
    return tracks;
  }

  /** Asks the server for the tiles that the view still lacks. */
  load() {
    this.run.store.want(this.rows(), this, this.level());
  }
}

/** Which of the shown tracks of a row stands for `track`: the nearest if it is hidden. */
function placeIn({ first, tracks }, track) {
  return Math.min(Math.max(0, track - first), Math.max(0, tracks - 1));
}
