// Where each row lies. A section holds the rows of one plane, or of one pool of threads, of one
// worker; pinned rows stay at the top.

// Heights in pixels.
export const MIN_TRACK = 15;
export const MAX_TRACK = 30; // In runs with few rows, which then use the room that there is.
export const GAP = 3; // Between two rows.
export const SECTION = 20; // A section's head.
export const COUNTER = 34; // A counter's row.

// The tracks of a row that the user has not opened: the most for which all rows have room.
const LIMITS = [96, 64, 48, 32, 24, 16, 12];
const MIN_WRAPPERS = 3; // Fewer levels around everything else are not worth hiding.
const MAX_MISSING = 20; // Heads of missing workers.
const MANY_ROWS = 400; // Runs with more begin with most sections closed.
const SCOPES = "Framework Name Scope"; // The line that XLA's tools derive; it is deep.

/** The name of a row's section: its plane's, or that of a pool of threads on a host. */
export function sectionOf({ plane, pool }) {
  return pool ? `${plane} ${pool}` : plane;
}

// PyTorch's two counters of a device's memory share a row: the second is drawn into the first's.
const ALLOCATED = "Total Allocated";
const RESERVED = "Total Reserved";

/** What rows of the same kind have in common on all workers; devices differ in their number. */
function kindOf(row) {
  return `${sectionOf(row).replace(/\d+/g, "#")}\n${row.name}`;
}

export class Layout {
  constructor(description) {
    this.description = description;
    this.track = MIN_TRACK; // Height of a track.
    this.limit = LIMITS.at(-1);
    this.pinned = [];
    this.filter = null; // (row) => boolean: whether the row is shown.
    this.compared = null; // A row of which only its like on all workers are shown, one below another.
    this.odd = new Set(); // Numbers of the workers that hold up the others.
    this.shown = -1; // The worker to which a link has led; -1 = none.
    this.closed = new Set(); // Keys of the closed sections.
    this.open = new Set(); // Rows that are shown with all of their tracks.
    this.shut = new Set(); // Rows that are shown with one track only.
    this.reserved = new Map(); // By row of allocated memory: that of the reserved memory.
    this.sections = [];
    for (const [number, row] of description.rows.entries()) {
      const name = sectionOf(row);
      const key = `${row.worker}/${name}`;
      let section = this.sections.at(-1);
      if (!section || section.key !== key) {
        const worker = description.workers[row.worker].name;
        section = {
          key,
          rows: [],
          title: description.workers.length > 1 ? `${worker}  ${name}` : name,
        };
        this.sections.push(section);
      }
      const before = section.rows.at(-1);
      if (row.name === RESERVED && description.rows[before]?.name === ALLOCATED)
        this.reserved.set(before, number);
      else section.rows.push(number);
    }
    this.addRoles();
    // Name scopes are about the same on all GPUs of a worker, so only the first begins with all of
    // its tracks.
    const seen = new Set();
    for (const [number, { worker, plane, name }] of description.rows.entries()) {
      if (name !== SCOPES || !plane.startsWith("/device:GPU:")) continue;
      if (seen.has(worker)) this.shut.add(number);
      seen.add(worker);
    }
    // A large run begins with all sections of the first worker, and only the devices of the others.
    if (description.rows.length > MANY_ROWS) {
      for (const section of this.sections) {
        if (section.members) continue;
        const row = description.rows[section.rows[0]];
        if (row.worker > 0 && !row.plane.startsWith("/device:")) this.closed.add(section.key);
      }
    }
    this.update();
  }

  /** Adds a head above the sections of each role, if workers have several: prefill and decode. */
  addRoles() {
    const { workers, rows } = this.description;
    if (new Set(workers.map(({ role }) => role)).size < 2) return;
    const sections = [];
    let head = null;
    for (const section of this.sections) {
      const { role } = workers[rows[section.rows[0]].worker];
      const key = `role/${role ?? ""}`;
      if (head?.key !== key) {
        head = { key, rows: [], title: role || "other workers", members: [] };
        sections.push(head);
      }
      section.head = head;
      head.members.push(section);
      sections.push(section);
    }
    this.sections = sections;
  }

  /** Whether the head of a role is shown. */
  showsHead({ members }) {
    return !this.filter || members.some(({ rows }) => rows.some(this.filter));
  }

  /** Adds sections of workers of which there is no trace, [{name, outcome}]: heads without rows. */
  addMissing(workers) {
    for (const { name, outcome } of workers.filter((worker) => worker.name).slice(0, MAX_MISSING))
      this.sections.push({
        key: `missing/${name}`,
        rows: [],
        title: `${name}  ${outcome}`,
        missing: true,
      });
    this.update();
  }

  /** A row's name for readers; empty if the trace has none. */
  nameOf(number) {
    return this.reserved.has(number) ? "Memory" : this.description.rows[number].name;
  }

  /** The rows that are drawn where this one is. */
  rowsAt(number) {
    return this.reserved.has(number) ? [number, this.reserved.get(number)] : [number];
  }

  /** The first track that is shown: levels that only surround all others are hidden at first. */
  firstOf(number) {
    const { wrappers } = this.description.rows[number];
    return wrappers >= MIN_WRAPPERS && !this.open.has(number) ? wrappers : 0;
  }

  tracksOf(number) {
    const row = this.description.rows[number];
    if (row.kind === "counter" || this.shut.has(number)) return 1;
    if (this.open.has(number)) return row.tracks;
    return Math.min(row.tracks - this.firstOf(number), this.limit);
  }

  /** Whether no track of a row is hidden. */
  isWhole(number) {
    return this.tracksOf(number) === this.description.rows[number].tracks;
  }

  heightOf(number) {
    return this.description.rows[number].kind === "counter"
      ? COUNTER + GAP
      : this.tracksOf(number) * this.track + GAP;
  }

  /**
   * The item of a row that begins at height `y`, with `tracks` from the `first` on, 0 of a counter.
   */
  rowAt(row, y) {
    const counter = this.description.rows[row].kind === "counter";
    return {
      type: "row",
      row,
      y,
      height: this.heightOf(row),
      first: this.firstOf(row),
      tracks: counter ? 0 : this.tracksOf(row),
      rows: this.rowsAt(row),
    };
  }

  /**
   * Places everything anew: `items` with the scrolled sections and rows, `pins` with the pinned
   * rows. An item is {type: "section", y, height, section} or as rowAt() makes it.
   */
  update() {
    this.pins = [];
    let y = 0;
    for (const row of this.pinned) {
      this.pins.push(this.rowAt(row, y));
      y += this.heightOf(row);
    }
    this.pinHeight = y;
    this.items = [];
    y = 0;
    for (const row of this.compared === null ? [] : this.likeCompared()) {
      this.items.push(this.rowAt(row, y));
      y += this.heightOf(row);
    }
    for (const section of this.compared === null ? this.sections : []) {
      const rows = this.filter ? section.rows.filter(this.filter) : section.rows;
      const shown = section.members
        ? this.showsHead(section)
        : rows.length > 0 || (section.missing && !this.filter);
      if (!shown) continue;
      if (section.head && this.closed.has(section.head.key) && !this.filter) continue;
      this.items.push({ type: "section", section, y, height: SECTION });
      y += SECTION;
      if (this.closed.has(section.key) && !this.filter) continue;
      for (const row of rows) {
        this.items.push(this.rowAt(row, y));
        y += this.heightOf(row);
      }
    }
    this.height = y;
  }

  /** The rows of the same kind as the compared one, by worker. */
  likeCompared() {
    const { rows } = this.description;
    const kind = kindOf(rows[this.compared]);
    return rows.flatMap((row, number) => (kindOf(row) === kind ? [number] : []));
  }

  /** Shows only rows like this one; all rows again if they are shown already. */
  compare(row) {
    this.compared = this.compared === null ? row : null;
    this.update();
  }

  /** Whether a row's name does not say whose it is, because no section's head is above it. */
  isApart(row) {
    return this.description.workers.length > 1 && (this.compared !== null || this.isPinned(row));
  }

  isPinned(row) {
    return this.pinned.includes(row);
  }

  /** Shows as many tracks, and as high ones, as `room` pixels for all rows allow, within limits. */
  fit(room) {
    this.track = MIN_TRACK;
    for (this.limit of LIMITS) {
      this.update();
      if (this.height <= room) break;
    }
    const tracks = this.items.reduce((sum, item) => sum + (item.tracks ?? 0), 0);
    const rest = this.height - tracks * this.track;
    const track = tracks > 0 ? Math.floor((room - rest) / tracks) : MIN_TRACK;
    this.track = Math.max(MIN_TRACK, Math.min(MAX_TRACK, track));
    this.update();
  }

  /** Items that touch [top, bottom). */
  visible(top, bottom) {
    let low = 0;
    let high = this.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.items[middle].y + this.items[middle].height <= top) low = middle + 1;
      else high = middle;
    }
    const found = [];
    for (let i = low; i < this.items.length && this.items[i].y < bottom; ++i)
      found.push(this.items[i]);
    return found;
  }

  itemOf(row) {
    return this.items.find((item) => item.row === row) ?? null;
  }

  /** Opens the section and the row of a track. */
  reveal(row, track) {
    if (this.compared !== null && !this.likeCompared().includes(row)) this.compared = null;
    const first = this.firstOf(row);
    if (track < first || track >= first + this.tracksOf(row)) {
      this.shut.delete(row);
      this.open.add(row);
    }
    const section = this.sections.find((candidate) => candidate.rows.includes(row));
    if (section) this.closed.delete(section.key);
    if (section?.head) this.closed.delete(section.head.key);
    this.update();
  }

  toggleSection(key) {
    if (!this.closed.delete(key)) this.closed.add(key);
  }

  /** Shows all tracks of a row or, when they are shown, one; from there, as at first. */
  toggleRow(row) {
    if (this.isWhole(row)) {
      this.shut.add(row);
      this.open.delete(row);
    } else if (!this.shut.delete(row)) {
      this.open.add(row);
    }
  }

  pin(row) {
    this.pinned = this.pinned.includes(row)
      ? this.pinned.filter((other) => other !== row)
      : [...this.pinned, row];
    this.update();
  }
}
