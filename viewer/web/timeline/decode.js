// Decodes the answers of /api/tiles. viewer/answers/tiles.h describes their format.

// Bits of a span's flags.
export const BEGAN_BEFORE = 1; // The event began before the tile.
export const ENDS_AFTER = 2; // The event ends after the tile.

/**
 * Whether an item has the times of one event. The one event that shares a slot with a longer one
 * has those of the slot instead.
 */
export function isSingle({ count, busy }, item) {
  return count[item] === 1 && busy[item] === 255;
}

/** Reads numbers from the front of an answer. */
class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  varint() {
    // Multiplied, because JavaScript's shifts work on 32 bits only.
    let value = 0;
    let scale = 1;
    for (;;) {
      if (this.at >= this.bytes.length) throw new Error("the answer is cut");
      const byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  }

  /** A zigzag-encoded number. */
  signed() {
    const value = this.varint();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  }

  /** The next bytes, not copied. */
  take(size) {
    this.at += size;
    return this.bytes.subarray(this.at - size, this.at);
  }
}

/**
 * {rows, texts, buffers}: the tracks of each row (a Map by the row's number), the names that spans
 * refer to, and the memory of all arrays. Besides row, track, counter, items (their number) and
 * phase, a track has arrays with one element per item:
 *   spans: begin, end (Float32Array), text, count (Uint32Array), busy, flags (Uint8Array)
 *   counters: at (Float32Array), least, most, last (Float64Array)
 * Times are in units of 2^max(level - 6, 0) ps from the tile's begin; a Float32Array holds them
 * exactly. Throws an Error when the answer is not complete or of another version.
 */
function decodeTiles(bytes) {
  const reader = new Reader(bytes);
  if (reader.varint() !== 1)
    throw new Error("the server speaks another version; load the page again");
  const tracks = Array.from({ length: reader.varint() }, () => ({
    row: reader.varint(),
    track: reader.varint(),
    counter: reader.varint() === 1,
    items: reader.varint(),
    phase: reader.signed(),
  }));
  const decoder = new TextDecoder();
  const texts = Array.from({ length: reader.varint() }, () =>
    decoder.decode(reader.take(reader.varint())),
  );
  const buffers = [];
  const keep = (array) => {
    buffers.push(array.buffer);
    return array;
  };
  const spans = tracks.filter((track) => !track.counter);
  const counters = tracks.filter((track) => track.counter);
  readSpans(reader, spans, keep);
  readCounters(reader, counters, keep);
  const rows = new Map();
  for (const track of tracks) {
    if (!rows.has(track.row)) rows.set(track.row, []);
    rows.get(track.row)[track.track] = track;
  }
  return { rows, texts, buffers };
}

/** Reads times that are written as distances from the time before. */
function readTimes(reader, track, keep) {
  const times = keep(new Float32Array(track.items));
  let now = track.phase;
  for (let i = 0; i < track.items; ++i) times[i] = now += reader.signed();
  return times;
}

function readNumbers(reader, track, keep) {
  const numbers = keep(new Uint32Array(track.items));
  for (let i = 0; i < track.items; ++i) numbers[i] = reader.varint();
  return numbers;
}

/** Reads the columns of all spans; each column holds all tracks. */
function readSpans(reader, tracks, keep) {
  for (const track of tracks) track.begin = readTimes(reader, track, keep);
  for (const track of tracks) {
    track.end = keep(new Float32Array(track.items));
    track.flags = keep(new Uint8Array(track.items));
    for (let i = 0; i < track.items; ++i) {
      const length = reader.varint();
      track.flags[i] = length % 4;
      track.end[i] = track.begin[i] + Math.floor(length / 4);
    }
  }
  for (const track of tracks) track.text = readNumbers(reader, track, keep);
  for (const track of tracks) track.count = readNumbers(reader, track, keep);
  for (const track of tracks) track.busy = keep(reader.take(track.items).slice());
}

function readCounters(reader, tracks, keep) {
  for (const track of tracks) track.at = readTimes(reader, track, keep);
  const view = new DataView(reader.bytes.buffer, reader.bytes.byteOffset);
  for (const track of tracks) {
    for (const name of ["least", "most", "last"]) track[name] = keep(new Float64Array(track.items));
    for (let i = 0; i < track.items; ++i, reader.at += 24) {
      track.least[i] = view.getFloat64(reader.at, true);
      track.most[i] = view.getFloat64(reader.at + 8, true);
      track.last[i] = view.getFloat64(reader.at + 16, true);
    }
  }
}

/** Fetches and decodes tiles; throws an Error with the server's message when it refuses. */
export async function fetchTiles(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return decodeTiles(new Uint8Array(await answer.arrayBuffer()));
}
