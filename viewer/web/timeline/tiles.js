// The timeline's data, loaded like a map: in tiles, each an aligned piece of time of one row at one
// zoom. Visible tiles are loaded first; until they are there, a coarser one is drawn. The level of
// a tile is the logarithm (base 2) of its slots' length in picoseconds.
import { ranges } from "../shared/api.js";
import { fetchTiles } from "./decode.js";

const TILE_SLOTS = 512;
const MAX_LEVEL = 56; // As in viewer/answers/tiles.h.
const FIRST_RETRY_MS = 500;
const LAST_RETRY_MS = 8000;
const FIRST_MS = 100; // How long the first frame waits for the first tile.
const MAX_REQUESTS = 3; // At once; more would delay what the next frame wants.
const MAX_ROWS = 256; // In one request.
const MAX_ITEMS = 6e6; // In memory, about 100 MB; the tiles that were drawn longest ago go first.

/** The level for a view: slots are 2 to 4 pixels wide. */
export function levelFor(view, width) {
  return Math.max(0, Math.ceil(Math.log2((2 * (view.end - view.begin)) / width)));
}

/** Length of a tile, in ps. */
export function tileSpan(level) {
  return TILE_SLOTS * 2 ** level;
}

/** Length of the unit in which a decoded tile has its times, in ps. */
export function unitOf(level) {
  return 2 ** Math.max(level - 6, 0);
}

export class TileStore {
  /** Calls changed() when new tiles can be drawn, failed(message) when some cannot be loaded. */
  constructor(api, description, changed, failed) {
    this.api = api;
    this.changed = changed;
    this.failed = failed;
    this.rows = description.rows.map(() => new Map()); // By row: tiles by "level:index".
    // The coarsest level: the finest of which two tiles hold the whole run. It is always loaded.
    const slotPs = Math.max(1, (description.endPs - description.beginPs) / (TILE_SLOTS - 1));
    this.coarsest = Math.min(MAX_LEVEL, Math.max(0, Math.ceil(Math.log2(slotPs))));
    // Indexes of the tiles of that level.
    this.first = Math.floor(description.beginPs / tileSpan(this.coarsest));
    this.last = Math.floor(description.endPs / tileSpan(this.coarsest));
    this.waiting = new Map(); // Requests under way, {level, index, rows, url} by number.
    this.asked = new Set(); // The tiles that they ask for, "row:level:index".
    this.number = 0; // The number of the latest request.
    this.items = 0; // Counts the items of all tiles in memory.
    this.failures = 0; // In a row.
    this.lacking = 0; // Tiles in sight that are not loaded.
    this.clock = 0; // Counts frames; a tile notes the last one that drew it.
    this.closed = false; // Another run is shown.
    this.worker = null; // Decodes what comes after the first tiles.
    this.alone = false; // The worker could not be loaded, or has failed.
    this.made = performance.now();
    this.begun = new Promise((resolve) => (this.begin = resolve)); // The first answer has come.
  }

  close() {
    this.closed = true;
    this.begin();
    this.worker?.terminate();
  }

  /** Starts the worker, when a tile is there: before, the worker's start would delay it. */
  startWorker() {
    this.worker = new Worker("decoder.js", { type: "module" });
    this.worker.onmessage = ({ data }) => this.take(data);
    this.worker.onerror = () => this.goOnAlone();
  }

  /** The worker could not be loaded, or has failed: the page decodes by itself from now on. */
  goOnAlone() {
    this.worker.terminate();
    this.worker = null;
    this.alone = true;
    for (const [id, { url }] of this.waiting) this.decode(id, url);
  }

  /** The tile, or null when it is not loaded. */
  get(row, level, index) {
    const tile = this.rows[row].get(`${level}:${index}`);
    if (tile) tile.used = this.clock;
    return tile ?? null;
  }

  /** The finest loaded tile that covers tile (level, index): {tile, level, index}, or null. */
  coarser(row, level, index) {
    for (let up = level + 1; up <= this.coarsest; ++up) {
      index = Math.floor(index / 2);
      const tile = this.get(row, up, index);
      if (tile) return { tile, level: up, index };
    }
    return null;
  }

  /** Asks for the tiles that the view lacks; called for each frame. The coarsest level goes first. */
  want(rows, view, level) {
    ++this.clock;
    level = Math.min(level, this.coarsest);
    const questions = [];
    const add = (l, index) => {
      const missing = rows.filter(
        (row) => !this.rows[row].has(`${l}:${index}`) && !this.asked.has(`${row}:${l}:${index}`),
      );
      for (let i = 0; i < missing.length; i += MAX_ROWS)
        questions.push({ level: l, index, rows: missing.slice(i, i + MAX_ROWS) });
    };
    for (let index = this.first; index <= this.last; ++index) add(this.coarsest, index);
    const from = Math.floor(view.begin / tileSpan(level));
    const to = Math.floor(view.end / tileSpan(level));
    const inside = (index) =>
      index * tileSpan(level) < (this.last + 1) * tileSpan(this.coarsest) &&
      (index + 1) * tileSpan(level) > this.first * tileSpan(this.coarsest);
    const finer = level < this.coarsest; // Otherwise the tiles are among those above.
    this.lacking = 0;
    for (let index = from; index <= to; ++index) {
      if (!inside(index)) continue;
      if (finer) add(level, index);
      for (const row of rows) if (!this.rows[row].has(`${level}:${index}`)) ++this.lacking;
    }
    // The neighbours on both sides: users go there next.
    for (const index of [from - 1, to + 1]) if (finer && inside(index)) add(level, index);
    for (const question of questions) {
      if (this.waiting.size >= MAX_REQUESTS) return;
      this.ask(question);
    }
  }

  /** True while the first tile is about to come: a frame without it would only delay it. */
  get begins() {
    return this.items === 0 && !this.quiet && performance.now() - this.made < FIRST_MS;
  }

  /** True when nothing is under way. */
  get quiet() {
    return this.waiting.size === 0;
  }

  ask({ level, index, rows }) {
    const id = ++this.number;
    const url = this.api.url("tiles", {
      rows: ranges(rows),
      begin: index * tileSpan(level),
      level,
      slots: TILE_SLOTS,
    });
    this.waiting.set(id, { level, index, rows, url });
    for (const row of rows) this.asked.add(`${row}:${level}:${index}`);
    if (!this.worker) this.decode(id, url);
    else this.worker.postMessage({ id, url });
  }

  /** Fetches and decodes in the page's own thread, which delays frames. */
  decode(id, url) {
    fetchTiles(url).then(
      (tiles) => this.take({ id, ...tiles }),
      (error) => this.take({ id, error: error.message }),
    );
  }

  take({ id, rows, texts, error }) {
    const request = this.waiting.get(id);
    if (this.closed || !request) return; // It was decoded twice: by the worker and, when that failed, here.
    const { level, index, rows: asked } = request;
    this.waiting.delete(id);
    this.begin();
    for (const row of asked) this.asked.delete(`${row}:${level}:${index}`);
    if (error) {
      this.failed(error);
      // The next frame asks again.
      const wait = Math.min(FIRST_RETRY_MS * 2 ** this.failures++, LAST_RETRY_MS);
      setTimeout(this.changed, wait);
      return;
    }
    this.failures = 0;
    if (!this.worker && !this.alone) this.startWorker();
    for (const row of asked) {
      const tracks = rows.get(row) ?? [];
      const items = tracks.reduce((sum, track) => sum + track.items, 1);
      this.rows[row].set(`${level}:${index}`, { tracks, texts, items, used: this.clock, level });
      this.items += items;
    }
    if (this.items > MAX_ITEMS) this.forget();
    this.changed();
  }

  /** Drops tiles until half of the memory is free; the coarsest level and what is in sight stay. */
  forget() {
    const all = [];
    this.rows.forEach((tiles, row) => {
      for (const [key, tile] of tiles)
        if (tile.level !== this.coarsest) all.push({ row, key, tile });
    });
    all.sort((a, b) => a.tile.used - b.tile.used);
    for (const { row, key, tile } of all) {
      if (this.items <= MAX_ITEMS / 2 || tile.used >= this.clock - 1) return;
      this.rows[row].delete(key);
      this.items -= tile.items;
    }
  }
}
