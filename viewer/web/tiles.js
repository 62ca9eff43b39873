// The timeline's data, loaded like a map: aligned tiles per row and zoom, what is visible first, a
// coarser one drawn until the right one is there.
import { ranges } from "./api.js";
import { fetchTiles } from "./decode.js";

const TILE_SLOTS = 512;
const MOST_AT_ONCE = 3;
const MOST_ROWS = 256; // Of one question.
const MOST_ITEMS = 6e6; // Kept, about 100 MB; the oldest go first.

/** Slots are 2 to 4 pixels wide. */
export function levelFor(view, width) {
  return Math.max(0, Math.ceil(Math.log2((2 * (view.end - view.begin)) / width)));
}

export function tileSpan(level) {
  return TILE_SLOTS * 2 ** level;
}

/** Length of a decoded tile's unit, in ps. */
export function unitOf(level) {
  return 2 ** Math.max(level - 6, 0);
}

function startWorker() {
  return new Worker("/decoder.js", { type: "module" });
}
// Starts while the run is still being read.
let spare = startWorker();

export class TileStore {
  /** `changed()`: something new can be drawn. `failed(message)`. */
  constructor(api, description, changed, failed) {
    this.api = api;
    this.changed = changed;
    this.failed = failed;
    this.rows = description.rows.map(() => new Map()); // Per row: "level:index" to tile.
    this.overview = Math.min(
      56,
      Math.max(
        0,
        Math.ceil(
          Math.log2(Math.max(1, (description.endPs - description.beginPs) / (TILE_SLOTS - 1))),
        ),
      ),
    );
    this.first = Math.floor(description.beginPs / tileSpan(this.overview));
    this.last = Math.floor(description.endPs / tileSpan(this.overview));
    this.waiting = new Map(); // Number of a question to what it asks for.
    this.asked = new Set(); // "row:level:index" under way.
    this.number = 0;
    this.items = 0;
    this.clock = 0;
    this.worker = spare ?? startWorker();
    spare = null;
    this.worker.onmessage = ({ data }) => this.take(data);
    this.worker.onerror = () => this.failed("the page's own worker could not be started");
  }

  close() {
    this.worker.terminate();
  }

  /** The tile, or null. */
  get(row, level, index) {
    const tile = this.rows[row].get(`${level}:${index}`);
    if (tile) tile.used = this.clock;
    return tile ?? null;
  }

  /** The nearest coarser tile that holds what tile (level, index) would: {tile, level, index} or null. */
  coarser(row, level, index) {
    for (let up = level + 1; up <= this.overview; ++up) {
      index = Math.floor(index / 2);
      const tile = this.get(row, up, index);
      if (tile) return { tile, level: up, index };
    }
    return null;
  }

  /** Asks for what the view still needs. Called for each frame; forgets what earlier frames wanted. */
  want(rows, view, level) {
    ++this.clock;
    level = Math.min(level, this.overview);
    const questions = [];
    const add = (l, index) => {
      const missing = rows.filter(
        (row) => !this.rows[row].has(`${l}:${index}`) && !this.asked.has(`${row}:${l}:${index}`),
      );
      for (let i = 0; i < missing.length; i += MOST_ROWS)
        questions.push({ level: l, index, rows: missing.slice(i, i + MOST_ROWS) });
    };
    for (let index = this.first; index <= this.last; ++index) add(this.overview, index);
    const from = Math.floor(view.begin / tileSpan(level)),
      to = Math.floor(view.end / tileSpan(level));
    const inside = (index) =>
      index * tileSpan(level) < (this.last + 1) * tileSpan(this.overview) &&
      (index + 1) * tileSpan(level) > this.first * tileSpan(this.overview);
    for (let index = from; index <= to; ++index) if (inside(index)) add(level, index);
    for (const index of [from - 1, to + 1]) if (inside(index)) add(level, index); // Where people go next.
    for (const question of questions) {
      if (this.waiting.size >= MOST_AT_ONCE) return;
      this.ask(question);
    }
  }

  /** True when nothing is under way. */
  get quiet() {
    return this.waiting.size === 0;
  }

  ask({ level, index, rows }) {
    const id = ++this.number;
    this.waiting.set(id, { level, index, rows });
    for (const row of rows) this.asked.add(`${row}:${level}:${index}`);
    const url = this.api.url("tiles", {
      rows: ranges(rows),
      begin: index * tileSpan(level),
      level,
      slots: TILE_SLOTS,
    });
    // The first picture does not wait until the worker has started.
    if (id === 1)
      fetchTiles(url).then(
        (tiles) => this.take({ id, ...tiles }),
        (error) => this.take({ id, error: error.message }),
      );
    else this.worker.postMessage({ id, url });
  }

  take({ id, rows, texts, error }) {
    const { level, index, rows: asked } = this.waiting.get(id);
    this.waiting.delete(id);
    for (const row of asked) this.asked.delete(`${row}:${level}:${index}`);
    if (error) {
      this.failed(error); // What was asked for is asked for again by the next frame.
      return;
    }
    for (const row of asked) {
      const tracks = rows.get(row) ?? [];
      const items = tracks.reduce((sum, track) => sum + track.items, 1);
      this.rows[row].set(`${level}:${index}`, { tracks, texts, items, used: this.clock, level });
      this.items += items;
    }
    if (this.items > MOST_ITEMS) this.forget();
    this.changed();
  }

  forget() {
    const all = [];
    this.rows.forEach((tiles, row) => {
      for (const [key, tile] of tiles)
        if (tile.level !== this.overview) all.push({ row, key, tile });
    });
    all.sort((a, b) => a.tile.used - b.tile.used);
    for (const { row, key, tile } of all) {
      if (this.items <= MOST_ITEMS / 2 || tile.used >= this.clock - 1) return;
      this.rows[row].delete(key);
      this.items -= tile.items;
    }
  }
}
