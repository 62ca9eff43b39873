// Arrows between events: those of the selected event or, when flow events are switched on, those
// of all rows in sight. The server joins arrows that could not be told apart to bundles.
import { ranges } from "../shared/api.js";
import { ArrowBrush } from "./arrows.js";
import { count } from "../shared/format.js";
import { GAP } from "./layout.js";

const MAX_BUNDLES = 10_000;
const CELL = 3; // Pixels; arrows whose begins and ends are this close together are one bundle.
const DENSE = 500; // From this many bundles on, arrows are drawn paler, so that events show through.
const THICK = 8; // A bundle of this many arrows is drawn thick.
const MIN_SHADE = 0.25;
const MANY = 2000; // With more bundles, arrows have no heads, which would cover events.
const MAX_PIXELS = 1e6; // For all arrows of a frame; if they need more, they are dotted to save time.
const MAX_DOTS = 8;
const BEYOND = 40; // Pixels outside of the canvas, where arrows to rows out of sight end.

export class Flows {
  /** `button`: switches flow events on and off. */
  constructor(button, view, notices) {
    this.button = button;
    this.view = view;
    this.notices = notices;
    this.on = false;
    this.arrows = []; // Arrows of the selected event: [[from, to]], each {row, track, beginPs, durationPs}.
    this.clearBundles();
    this.question = 0; // Number of the latest question; older answers are dropped.
  }

  clearBundles() {
    this.bundles = []; // [[row, track, ps], [row, track, ps], count] from the server.
    this.total = 0; // All arrows in the view.
    this.drawn = 0; // Arrows in the bundles.
    this.places = new Places([]);
  }

  /** Draws an event's own arrows, over those of all rows. */
  showEvent(event) {
    this.arrows = arrowsOf(event);
  }

  hideEvent() {
    this.arrows = [];
  }

  toggle() {
    this.on = !this.on;
    this.button.setAttribute("aria-pressed", String(this.on));
    this.button.title = "Flow events (v)";
    this.clearBundles();
    this.refresh();
    this.view.redraw();
  }

  /** Fetches the arrows of the rows in sight, if they are to be drawn. */
  async refresh() {
    if (!this.on || !this.view.run) return;
    const number = ++this.question;
    const { begin, end, run, renderer } = this.view;
    const isLate = () => number !== this.question || !this.on || run !== this.view.run;
    const rows = this.view.rows();
    if (rows.length === 0) return;
    const cell = (CELL * (end - begin)) / renderer.width;
    const level = Math.max(0, Math.floor(Math.log2(Math.max(1, cell))));
    try {
      const question = { rows: ranges(rows), begin, end, level, limit: MAX_BUNDLES };
      const { total, drawn, bundles } = await run.api.get("arrows", question);
      if (isLate()) return;
      // Neighbours are drawn one after the other, because their pixels are close in memory.
      bundles.sort(([a], [b]) => a[2] - b[2]);
      this.bundles = bundles;
      this.places = new Places(bundles);
      this.total = total;
      this.drawn = drawn;
      this.tell();
      this.view.redraw();
    } catch (error) {
      if (!isLate()) this.notices.tell(error.message);
    }
  }

  /** Says how many there are and how they are drawn, unless the user has just been told so. */
  tell() {
    const { total, drawn, bundles } = this;
    const all = drawn === total ? "all" : count(drawn);
    const how = bundles.length === drawn ? "drawn" : `drawn as ${count(bundles.length)} bundles`;
    const text = `${count(total)} links, ${all} ${how}`;
    const title = `${text} (v)`;
    if (this.button.title === title) return;
    this.button.title = title;
    this.notices.tell(text);
  }

  /** Draws the bundles into the renderer's pixels; a part of drawing a frame. */
  draw({ pixels, canvas, ratio, theme }) {
    const { bundles, view, places } = this;
    if (!this.on || bundles.length === 0) return;
    const heights = places.heights(view);
    const shade = Math.max(MIN_SHADE, Math.min(1, Math.sqrt(DENSE / bundles.length)));
    const pixelsOfAll = this.pixelsOfAll(heights, canvas.width, ratio);
    const dots = Math.min(MAX_DOTS, Math.floor(pixelsOfAll / MAX_PIXELS) + 1);
    const brush = new ArrowBrush(
      pixels,
      canvas.width,
      ratio,
      theme.arrow,
      Math.min(1, shade * dots),
    );
    brush.heads = bundles.length <= MANY;
    brush.dots = dots;
    const scale = canvas.width / (view.end - view.begin);
    bundles.forEach(([from, to, arrows], i) => {
      const y0 = heights[places.from[i]] * ratio;
      const y1 = heights[places.to[i]] * ratio;
      if (y0 !== y0 || y1 !== y1) return; // Rows that the filter hides have no place.
      const x0 = (from[2] - view.begin) * scale;
      const x1 = (to[2] - view.begin) * scale;
      brush.arrow(x0, y0, x1, y1, arrows >= THICK);
    });
  }

  /** About how many pixels all bundles take on a picture of this width. */
  pixelsOfAll(heights, width, ratio) {
    const { bundles, view, places } = this;
    const scale = width / (view.end - view.begin);
    let sum = 0;
    bundles.forEach(([from, to], i) => {
      const low = Math.max(0, (Math.min(from[2], to[2]) - view.begin) * scale);
      const high = Math.min(width, (Math.max(from[2], to[2]) - view.begin) * scale);
      const height = Math.abs(heights[places.to[i]] - heights[places.from[i]]) * ratio;
      if (high >= low && height >= 0) sum += Math.max(height, high - low);
    });
    return sum;
  }
}

/** The heights on the canvas at which the ends of bundles lie. Many share a track. */
class Places {
  constructor(bundles) {
    this.ends = []; // [row, track], each once.
    const known = new Map();
    const numberOf = ([row, track]) => {
      const key = `${row}:${track}`;
      if (!known.has(key)) {
        known.set(key, this.ends.length);
        this.ends.push([row, track]);
      }
      return known.get(key);
    };
    this.from = bundles.map(([from]) => numberOf(from));
    this.to = bundles.map(([, to]) => numberOf(to));
    this.known = null; // The heights, and what they were computed from.
  }

  heights(view) {
    const { layout } = view.run;
    const { height } = view.renderer;
    const { known } = this;
    if (known?.items !== layout.items || known.top !== view.top || known.height !== height) {
      const values = this.ends.map(([row, track]) => heightOf(view, row, track));
      this.known = { items: layout.items, top: view.top, height, values };
    }
    return this.known.values;
  }
}

/** Where arrows of a track end: beyond the edge when it is out of sight, at its section's head when
 * that is closed; NaN when the row is filtered out. */
function heightOf(view, row, track) {
  const y = view.placeOf(row, track);
  const { layout } = view.run;
  if (y !== null) return y + (layout.track - GAP) / 2;
  const item =
    layout.itemOf(row) ??
    layout.items.find(({ type, section }) => type === "section" && section.rows.includes(row));
  if (!item || (item.type === "section" && layout.filter && !layout.filter(row))) return NaN;
  if (item.y + item.height <= view.top) return -BEYOND;
  const [band] = view.bands();
  const at = band.top + item.y + item.height / 2;
  return at < band.to ? at : band.to + BEYOND;
}

/** `event`: an answer of /api/event. */
function arrowsOf(event) {
  const { row, track, beginPs, durationPs } = event;
  const own = { row, track, beginPs, durationPs };
  return [...event.in.map((from) => [from, own]), ...event.out.map((to) => [own, to])];
}
