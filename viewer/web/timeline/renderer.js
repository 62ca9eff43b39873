// Draws the timeline by scan lines: one line of pixels is computed per track and copied down its
// height, then the whole picture is put onto the canvas at once. The cost of a frame follows the
// number of pixels, not of events; and without WebGL every browser draws the same.
import { THEMES, colorOf, mix, pixel } from "./colors.js";
import { BEGAN_BEFORE, ENDS_AFTER, isSingle } from "./decode.js";
import { tick, writerOf } from "../shared/format.js";
import { fitted } from "../shared/short_name.js";
import { COUNTER, SECTION } from "./layout.js";
import { tileSpan, unitOf } from "./tiles.js";

export const TICKS = 22; // Height of the axis' times, in pixels.
export const AXIS = 38; // With the lengths of marks below them; shared/style.css has this height too.
const MIN_TEXT = 36; // Narrower events, in pixels, have no name written into them.
const MAX_TEXTS = 400; // The widest events; text is what costs most in a frame.
const FONT = "11px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";
const HEIGHTS = 4; // Steps of height by which items of many events show how busy their time is.

export class Renderer {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.setTheme("light");
    this.coloring = null; // Which colour an event has; see Coloring. Null: that of its name.
    this.highlight = null; // (name) => boolean; the other names are drawn pale.
    this.version = 0; // Changes with the colours, which are kept with the tiles.
    this.track = 0; // Height of a track in the frame that is drawn.
  }

  setTheme(name) {
    this.theme = THEMES[name];
    ++this.version;
  }
  setHighlight(matches) {
    this.highlight = matches;
    ++this.version;
  }

  /** The coloring gives other colours from now on. */
  recolor() {
    ++this.version;
  }

  resize(width, height, ratio) {
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    this.canvas.width = Math.max(1, Math.round(width * ratio));
    this.canvas.height = Math.max(1, Math.round(height * ratio));
    this.picture = this.context.createImageData(this.canvas.width, this.canvas.height);
    this.pixels = new Uint32Array(this.picture.data.buffer);
    // Scan lines of a track from its lowest part, where every item is, to its highest.
    this.lines = Array.from({ length: HEIGHTS }, () => new Uint32Array(this.canvas.width));
    this.empty = new Uint32Array(this.canvas.width); // A scan line without events.
    this.context.font = FONT;
    this.letter = this.context.measureText("0".repeat(50)).width / 50;
  }

  x(ps, view) {
    return ((ps - view.begin) / (view.end - view.begin)) * this.width;
  }

  /**
   * Draws [view.begin, view.end) of the bands' rows; `bands` and `level` as View has them.
   * drawMore(renderer) may draw more into the pixels, below the names.
   */
  draw(view, bands, store, level, drawMore) {
    const { theme } = this;
    this.track = view.run.layout.track;
    this.ticks = this.ticksOf(view);
    this.drawGrid();
    this.labels = [];
    this.counters = [];
    for (const band of bands) {
      for (const item of band.items) {
        if (item.type === "section")
          this.fillRect(band, band.top + item.y, SECTION, pixel(theme.band));
        else if (item.tracks === 0) this.counters.push({ item, band });
        else this.drawRow(view, store, level, item, band);
      }
    }
    drawMore(this);
    const { context, ratio } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.putImageData(this.picture, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (const { item, band } of this.counters) this.drawCounter(view, store, level, item, band);
    this.drawLabels();
    this.drawAxis();
  }

  fillRect(band, y, height, color) {
    const { ratio, canvas, pixels } = this;
    const from = Math.max(Math.round(Math.max(y, band.from) * ratio), 0);
    const to = Math.min(Math.round(Math.min(y + height, band.to) * ratio), canvas.height);
    if (to > from) pixels.fill(color, from * canvas.width, to * canvas.width);
  }

  /**
   * Calls visit(tile, base, scale, from, to, index) for the tiles that cover the view on a row. A
   * time t of the tile, in its units, lies at pixel base + t * scale. Only pixels [from, to) are to
   * be drawn, since a coarser tile may stand in for one that is not loaded yet; `index` is that of
   * the tile that is drawn.
   */
  forTiles(view, store, level, row, visit) {
    level = Math.min(level, store.coarsest);
    const scale = this.canvas.width / (view.end - view.begin);
    const first = Math.floor(view.begin / tileSpan(level));
    const last = Math.floor(view.end / tileSpan(level));
    for (let index = first; index <= last; ++index) {
      let tile = store.get(row, level, index);
      let at = level;
      let begin = index;
      if (!tile) {
        const coarser = store.coarser(row, level, index);
        if (!coarser) continue;
        ({ tile, level: at, index: begin } = coarser);
      }
      const from = Math.max(0, Math.round((index * tileSpan(level) - view.begin) * scale));
      const to = Math.min(
        this.canvas.width,
        Math.round(((index + 1) * tileSpan(level) - view.begin) * scale),
      );
      const base = (begin * tileSpan(at) - view.begin) * scale;
      visit(tile, base, unitOf(at) * scale, from, to, begin);
    }
  }

  drawRow(view, store, level, item, band) {
    for (let track = 0; track < item.tracks; ++track) {
      const y = band.top + item.y + track * this.track;
      this.drawTrack(view, store, level, item.row, item.first + track, band, y);
    }
  }

  drawTrack(view, store, level, row, number, band, y) {
    const { lines, canvas, ratio } = this;
    const top = Math.max(Math.round(Math.max(y, band.from) * ratio), 0);
    const bottom = Math.min(
      Math.round(Math.min(y + this.track - 1, band.to) * ratio),
      canvas.height,
    );
    if (bottom <= top) return;
    for (const line of lines) line.set(this.empty);
    const labels = new TrackLabels(this.labels, MIN_TEXT * ratio, y, band);
    let some = false;
    this.forTiles(view, store, level, row, (tile, base, scale, from, to, index) => {
      const track = tile.tracks[number];
      if (!track || track.items === 0) return;
      some = true;
      this.colorItems(tile, track, row, index);
      this.drawItems(tile, track, base, scale, from, to, labels);
    });
    if (!some) return;
    const height = (this.track - 1) * ratio;
    for (let y1 = top; y1 < bottom; ++y1) {
      const up = Math.round(y * ratio) + height - 1 - y1; // Above the track's lowest line.
      const part = Math.min(HEIGHTS - 1, Math.max(0, Math.floor((up * HEIGHTS) / height)));
      this.pixels.set(lines[part], y1 * canvas.width);
    }
  }

  /** Draws a track's items into `lines`; the arguments are those of forTiles. */
  drawItems(tile, track, base, scale, from, to, labels) {
    const { lines, ratio } = this;
    const { begin, end, busy, flags, text } = track;
    const back = pixel(this.theme.back);
    const { colors } = track;
    let until = 0; // The end of what single events have filled.
    for (let i = firstItem(track, base, scale, from); i < track.items; ++i) {
      const x0 = base + begin[i] * scale;
      if (x0 >= to) break;
      let a = Math.round(x0);
      let b = Math.round(base + end[i] * scale);
      if (b <= a) b = a + 1; // Even the shortest event is seen.
      const single = isSingle(track, i);
      // What else begins in the slot in which a long event ends comes after it.
      if (single) until = Math.max(until, b);
      else a = Math.min(Math.max(a, until), b - 1);
      if (a < from) a = from;
      if (b > to) b = to;
      if (b <= a) continue;
      const color = colors[i];
      // The busier its time, the higher an item of many events; never too pale to be seen.
      const height = single ? HEIGHTS : 1 + ((busy[i] * (HEIGHTS - 1)) >> 8);
      for (let part = 0; part < height; ++part) {
        const line = lines[part];
        // Most items are a few pixels wide; for those, fill() costs more than a loop.
        if (b - a < 12) for (let x = a; x < b; ++x) line[x] = color;
        else line.fill(color, a, b);
      }
      if (!single) {
        labels.interrupt();
        continue;
      }
      // A pixel of background separates neighbours of the same colour.
      if (b - a > 3 * ratio && !(flags[i] & BEGAN_BEFORE) && a > from)
        for (const line of lines) line[a] = back;
      labels.add(tile.texts[text[i]], a, b, flags[i]);
    }
  }

  /** Gives a track a pixel per item; again only after theme, highlight or coloring changed. */
  colorItems(tile, track, row, index) {
    if (track.version === this.version) return;
    const { theme, coloring } = this;
    const ofName = (name) => coloring?.ofName(row, name) ?? colorOf(name);
    const seen = (name, color) =>
      this.highlight && !this.highlight(name) ? mix(color, theme.back, 0.22) : color;
    const colors = (track.colors ??= new Uint32Array(track.items));
    if (coloring?.byTime) {
      const base = index * tileSpan(tile.level);
      for (let i = 0; i < track.items; ++i) {
        const color = coloring.ofTime(row, base + track.begin[i] * unitOf(tile.level));
        colors[i] = pixel(seen(tile.texts[track.text[i]], color));
      }
    } else {
      const pixels = tile.texts.map((name) => pixel(seen(name, ofName(name))));
      for (let i = 0; i < track.items; ++i) colors[i] = pixels[track.text[i]];
    }
    track.version = this.version;
  }

  /** A row's values in sight, [x, least, most, last] by pixel: a slot may have many values. */
  pointsOf(view, store, level, row) {
    const { ratio } = this;
    const points = [];
    let last = -Infinity; // Where the latest value lies: tiles repeat those around their borders.
    this.forTiles(view, store, level, row, (tile, base, scale, from, to) => {
      const track = tile.tracks[0];
      if (!track) return;
      let early = false; // Only the latest of the values from before the tile counts.
      for (let i = 0; i < track.items; ++i) {
        const x = base + track.at[i] * scale;
        if (x >= to) break;
        if (x < last + scale / 2) continue;
        last = x;
        if (early && x <= from) points.pop();
        early = x <= from;
        points.push([Math.max(x, from) / ratio, track.least[i], track.most[i], track.last[i]]);
      }
    });
    return points;
  }

  /** Draws a counter as a stepped line, and one that shares its row as a second line. */
  drawCounter(view, store, level, item, band) {
    const { context, theme } = this;
    const lines = item.rows.map((row) => {
      const points = this.pointsOf(view, store, level, row);
      const least = Math.min(...points.map(([, low]) => low));
      const most = Math.max(...points.map(([, , high]) => high));
      return { points, least, most, name: view.run.description.rows[row].name };
    });
    const told = lines.filter(({ points, most }, i) => points.length > 0 && (i === 0 || most > 0));
    if (told.length === 0) return;
    const height = COUNTER - 4;
    const floor = Math.min(0, ...told.map(({ least }) => least));
    const range = Math.max(...told.map(({ most }) => most)) - floor || 1;
    const top = band.top + item.y + 2;
    const up = (value) => top + height - ((value - floor) / range) * height;
    context.save();
    context.beginPath();
    context.rect(0, band.from, this.width, band.to - band.from);
    context.clip();
    told.forEach(({ points }, line) => {
      context.beginPath();
      context.moveTo(points[0][0], up(line === 0 ? floor : points[0][1]));
      for (let i = 0; i < points.length; ++i) {
        const [x, low, high, last] = points[i];
        context.lineTo(x, up(high));
        if (low !== high) context.lineTo(x, up(low));
        context.lineTo(x, up(last));
        context.lineTo(i + 1 < points.length ? points[i + 1][0] : this.width, up(last));
      }
      if (line === 0) {
        context.lineTo(this.width, up(floor));
        context.fillStyle = theme.shade;
        context.fill();
      }
      context.strokeStyle = line === 0 ? theme.accent : theme.soft;
      context.stroke();
    });
    const text = told.map((line) => rangeOf(line, told.length > 1)).join(", ");
    context.font = FONT;
    context.textBaseline = "top";
    // The text stays legible over the line.
    context.fillStyle = `rgb(${theme.back})`;
    context.globalAlpha = 0.75;
    context.fillRect(2, top, context.measureText(text).width + 4, 13);
    context.globalAlpha = 1;
    context.fillStyle = theme.soft;
    context.fillText(text, 4, top);
    context.restore();
  }

  /** Writes names into events, the widest first. */
  drawLabels() {
    const { context, ratio, letter, track } = this;
    context.font = FONT;
    context.textBaseline = "middle";
    context.fillStyle = "#16191d";
    this.labels.sort((p, q) => q.b - q.a - (p.b - p.a));
    for (const { text, a, b, y, band } of this.labels.slice(0, MAX_TEXTS)) {
      const width = (b - a) / ratio - 6;
      if (width < MIN_TEXT - 6 || y < band.from - track / 2 || y + track > band.to + track / 2)
        continue;
      context.fillText(fitted(text, Math.floor(width / letter)), a / ratio + 3, y + track / 2);
    }
  }

  /** {step, list: [{ps, x}]}: the times that the axis names, `step` apart, from the view's zero. */
  ticksOf(view) {
    const { begin, end, zero } = view;
    const step = niceStep((end - begin) / (this.width / 120));
    const list = [];
    for (let ps = Math.ceil((begin - zero) / step) * step; ps <= end - zero; ps += step)
      list.push({ ps, x: this.x(zero + ps, view) });
    return { step, list };
  }

  /** Empties the picture but for a line below each tick. */
  drawGrid() {
    const { empty, pixels, theme, ratio, canvas } = this;
    empty.fill(pixel(theme.back));
    for (const { x } of this.ticks.list) {
      const at = Math.floor(x * ratio);
      if (at >= 0 && at < canvas.width) empty[at] = pixel(theme.lines);
    }
    pixels.set(empty);
    // Doubles what is filled until all is.
    for (let filled = canvas.width; filled < pixels.length; filled *= 2)
      pixels.copyWithin(filled, 0, Math.min(filled, pixels.length - filled));
  }

  drawAxis() {
    const { context, theme, width } = this;
    const { step, list } = this.ticks;
    context.fillStyle = `rgb(${theme.band})`;
    context.fillRect(0, 0, width, AXIS);
    context.strokeStyle = theme.line;
    context.fillStyle = theme.soft;
    context.font = FONT;
    context.textBaseline = "middle";
    context.beginPath();
    for (const { ps, x } of list) {
      const at = Math.floor(x) + 0.5;
      context.moveTo(at, TICKS - 8);
      context.lineTo(at, AXIS);
      const text = tick(Math.round(ps), step);
      if (at + 4 + text.length * this.letter <= width)
        context.fillText(text, at + 4, TICKS / 2 + 1);
    }
    context.moveTo(0, AXIS - 0.5);
    context.lineTo(width, AXIS - 0.5);
    context.stroke();
  }
}

/**
 * The first item to draw from pixel `from` on, by bisection: of a coarse tile only a part is drawn.
 * Goes back two items from the first that begins there: the one before may reach into the part or,
 * when that one shares its slot with shorter items, the one before it.
 */
function firstItem(track, base, scale, from) {
  let low = 0;
  let high = track.items;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (base + track.begin[middle] * scale < from) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 2);
}

/** Collects the names to write on a track. An event that spans several tiles gets one name. */
class TrackLabels {
  /** `all`: where labels go. `wide`: pixels that an event needs to get one. */
  constructor(all, wide, y, band) {
    this.all = all;
    this.wide = wide;
    this.y = y;
    this.band = band;
    this.last = null; // The event that may go on in the next tile.
  }

  interrupt() {
    this.last = null;
  }

  /** An event at pixels [a, b). */
  add(text, a, b, flags) {
    const goesOn = (flags & ENDS_AFTER) !== 0;
    if (flags & BEGAN_BEFORE && this.last?.goesOn && this.last.text === text) {
      this.last.b = b;
      this.last.goesOn = goesOn;
      return;
    }
    this.last = { text, a, b, y: this.y, band: this.band, goesOn };
    if (b - a >= this.wide || goesOn) this.all.push(this.last);
  }
}

/** "875 MiB to 2.5 GiB", after what the line is if there are several. */
function rangeOf({ name, least, most }, named) {
  const [low, high] = [least, most].map(writerOf(name));
  const what = named ? `${name.replace("Total ", "").toLowerCase()} ` : "";
  return `${what}${low === high ? low : `${low} to ${high}`}`;
}

/** 1, 2 or 5 times a power of ten, at least `least`. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least) ?? 10 * power;
}
