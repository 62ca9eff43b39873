// Draws the timeline by scan lines: each track is one line of pixels, copied as often as the track is
// high, and the picture is put onto the canvas at once. No WebGL, the same pixels everywhere, and a
// frame costs about as much as the pixels are many.
import { THEMES, colorOf, mix, pixel } from "./colors.js";
import { tick } from "./format.js";
import { COUNTER, SECTION, TRACK } from "./layout.js";
import { tileSpan, unitOf } from "./tiles.js";

export const AXIS = 26;
const LEAST_TEXT = 26; // Pixels that a name needs.
const MOST_TEXTS = 400;
const FONT = "11px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace";
const LEAST_BUSY = 0.3; // So much of its colour has what is hardly busy.

export class Renderer {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: false });
    this.setTheme("light");
    this.highlight = null; // (name) => boolean
    this.version = 0;
  }

  setTheme(name) {
    this.theme = THEMES[name];
    ++this.version;
  }
  setHighlight(matches) {
    this.highlight = matches;
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
    this.line = new Uint32Array(this.canvas.width);
    this.context.font = FONT;
    this.letter = this.context.measureText("0".repeat(50)).width / 50;
  }

  x(ps, view) {
    return ((ps - view.begin) / (view.end - view.begin)) * this.width;
  }

  /** `bands`: [{items, top, from, to}] of the layout: items drawn at top + y, clipped to [from, to). */
  draw(view, bands, store, level) {
    const { pixels, theme } = this;
    pixels.fill(pixel(theme.back));
    this.labels = [];
    this.counters = [];
    for (const band of bands) {
      for (const item of band.items) {
        if (item.type === "section")
          this.fillRect(band, band.top + item.y, SECTION, pixel(theme.band));
        else if (item.tracks === 0) this.counters.push({ item, band });
        else
          for (let track = 0; track < item.tracks; ++track)
            this.drawTrack(
              view,
              store,
              level,
              item.row,
              track,
              band,
              band.top + item.y + track * TRACK,
            );
      }
    }
    const { context, ratio } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.putImageData(this.picture, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (const { item, band } of this.counters) this.drawCounter(view, store, level, item, band);
    this.drawLabels();
    this.drawAxis(view);
  }

  fillRect(band, y, height, color) {
    const { ratio, canvas, pixels } = this;
    const from = Math.max(Math.round(Math.max(y, band.from) * ratio), 0),
      to = Math.min(Math.round(Math.min(y + height, band.to) * ratio), canvas.height);
    if (to > from) pixels.fill(color, from * canvas.width, to * canvas.width);
  }

  /** Visits what is to be drawn of a row: visit(tile, base, scale, from, to), pixels of the canvas. */
  forTiles(view, store, level, row, visit) {
    level = Math.min(level, store.overview);
    const scale = this.canvas.width / (view.end - view.begin);
    const first = Math.floor(view.begin / tileSpan(level)),
      last = Math.floor(view.end / tileSpan(level));
    for (let index = first; index <= last; ++index) {
      let tile = store.get(row, level, index),
        at = level,
        begin = index;
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
      visit(
        tile,
        (begin * tileSpan(at) - view.begin) * scale,
        unitOf(at) * scale,
        from,
        to,
        at === level,
      );
    }
  }

  drawTrack(view, store, level, row, number, band, y) {
    const { line, canvas, ratio } = this;
    const top = Math.max(Math.round(Math.max(y, band.from) * ratio), 0),
      bottom = Math.min(Math.round(Math.min(y + TRACK - 1, band.to) * ratio), canvas.height);
    if (bottom <= top) return;
    const back = pixel(this.theme.back);
    line.fill(back);
    const wide = LEAST_TEXT * ratio;
    let label = null,
      some = false;
    this.forTiles(view, store, level, row, (tile, base, scale, from, to) => {
      const track = tile.tracks[number];
      if (!track || track.items === 0) return;
      const colors = this.colorsOf(tile, track);
      const { begin, end, count, flags, text } = track;
      some = true;
      // Of a coarse tile only a part is wanted. What reaches into it is the one before or, when it
      // shares a slot with others, the one before that.
      let i = 0;
      for (let high = track.items; i < high;) {
        const middle = (i + high) >> 1;
        if (base + begin[middle] * scale < from) i = middle + 1;
        else high = middle;
      }
      i = Math.max(0, i - 2);
      for (; i < track.items; ++i) {
        const x0 = base + begin[i] * scale;
        if (x0 >= to) break;
        let a = Math.round(x0),
          b = Math.round(base + end[i] * scale);
        if (b <= a) b = a + 1;
        if (a < from) a = from;
        if (b > to) b = to;
        if (b <= a) continue;
        const color = colors[i];
        if (b - a < 12) for (let x = a; x < b; ++x) line[x] = color;
        else line.fill(color, a, b);
        if (count[i] !== 1) {
          label = null;
          continue;
        }
        // A seam tells neighbours of one colour apart.
        if (b - a > 3 * ratio && !(flags[i] & 1) && a > from) line[a] = back;
        if (flags[i] & 1 && label && label.goesOn && label.text === tile.texts[text[i]]) {
          label.b = b;
          label.goesOn = (flags[i] & 2) !== 0;
        } else {
          label = { text: tile.texts[text[i]], a, b, y, band, goesOn: (flags[i] & 2) !== 0 };
          if (b - a >= wide || label.goesOn) this.labels.push(label);
        }
      }
    });
    if (!some) return;
    for (let y1 = top; y1 < bottom; ++y1) this.pixels.set(line, y1 * canvas.width);
  }

  colorsOf(tile, track) {
    if (track.version === this.version) return track.colors;
    const { back } = this.theme;
    const of = tile.texts.map((name) => {
      const color = colorOf(name);
      return this.highlight && !this.highlight(name) ? mix(color, back, 0.22) : color;
    });
    // Sixteen shades of each name that is drawn with any.
    const shades = new Map();
    const colors = (track.colors ??= new Uint32Array(track.items));
    for (let i = 0; i < track.items; ++i) {
      const busy = track.count[i] === 1 ? 15 : track.busy[i] >> 4;
      const key = track.text[i] * 16 + busy;
      let color = shades.get(key);
      if (color === undefined)
        shades.set(
          key,
          (color = pixel(
            mix(of[track.text[i]], back, LEAST_BUSY + (1 - LEAST_BUSY) * (busy / 15)),
          )),
        );
      colors[i] = color;
    }
    track.version = this.version;
    return colors;
  }

  drawCounter(view, store, level, item, band) {
    const { context, theme, ratio } = this;
    let least = Infinity,
      most = -Infinity;
    const points = [];
    this.forTiles(view, store, level, item.row, (tile, base, scale, from, to) => {
      const track = tile.tracks[0];
      if (!track) return;
      for (let i = 0; i < track.items; ++i) {
        const x = base + track.at[i] * scale;
        if (x >= to) break;
        if (track.least[i] < least) least = track.least[i];
        if (track.most[i] > most) most = track.most[i];
        points.push([Math.max(x, from) / ratio, track.least[i], track.most[i], track.last[i]]);
      }
    });
    if (points.length === 0) return;
    const height = COUNTER - 4,
      floor = Math.min(least, 0),
      range = most - floor || 1;
    const top = band.top + item.y + 2;
    const up = (value) => top + height - ((value - floor) / range) * height;
    context.save();
    context.beginPath();
    context.rect(0, band.from, this.width, band.to - band.from);
    context.clip();
    context.beginPath();
    context.moveTo(points[0][0], up(floor));
    for (let i = 0; i < points.length; ++i) {
      const [x, low, high, last] = points[i];
      context.lineTo(x, up(high));
      if (low !== high) context.lineTo(x, up(low));
      context.lineTo(x, up(last));
      context.lineTo(i + 1 < points.length ? points[i + 1][0] : this.width, up(last));
    }
    context.lineTo(this.width, up(floor));
    context.fillStyle = theme.shade;
    context.strokeStyle = theme.accent;
    context.fill();
    context.stroke();
    context.fillStyle = theme.soft;
    context.font = FONT;
    context.textBaseline = "top";
    context.fillText(`${least} to ${most}`, 4, top);
    context.restore();
  }

  drawLabels() {
    const { context, ratio, letter } = this;
    context.font = FONT;
    context.textBaseline = "middle";
    context.fillStyle = "#16191d";
    this.labels.sort((p, q) => q.b - q.a - (p.b - p.a));
    for (const { text, a, b, y, band } of this.labels.slice(0, MOST_TEXTS)) {
      const width = (b - a) / ratio - 6;
      if (width < LEAST_TEXT - 6 || y < band.from - TRACK / 2 || y + TRACK > band.to + TRACK / 2)
        continue;
      const fits = Math.floor(width / letter);
      const shown = text.length <= fits ? text : `${text.slice(0, Math.max(0, fits - 1))}…`;
      context.fillText(shown, a / ratio + 3, y + TRACK / 2);
    }
  }

  drawAxis(view) {
    const { context, theme, width } = this;
    context.fillStyle = `rgb(${theme.band})`;
    context.fillRect(0, 0, width, AXIS);
    context.strokeStyle = theme.line;
    context.fillStyle = theme.soft;
    context.font = FONT;
    context.textBaseline = "middle";
    const step = niceStep((view.end - view.begin) / (width / 120));
    context.beginPath();
    for (let at = Math.ceil(view.begin / step) * step; at <= view.end; at += step) {
      const x = Math.round(this.x(at, view)) + 0.5;
      context.moveTo(x, AXIS - 7);
      context.lineTo(x, AXIS);
      context.fillText(tick(Math.round(at), step), x + 4, AXIS / 2);
    }
    context.moveTo(0, AXIS - 0.5);
    context.lineTo(width, AXIS - 0.5);
    context.stroke();
  }
}

/** 1, 2 or 5 times a power of ten, at least `least`. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= least) ?? 10 * power;
}
