// Reads what /api/tiles answers; its shape is written in viewer/tiles.h.

/**
 * Times are in units of 2^max(level - 6, 0) ps from the tile's begin.
 * @returns {{rows: Map<number, Array>, buffers: ArrayBuffer[]}} per row its tracks:
 *   spans {begin, end: Float32Array, text: Uint32Array, count: Uint32Array, busy, flags: Uint8Array, texts: string[]}
 *   or counters {at: Float32Array, least, most, last: Float64Array}
 */
function decodeTiles(bytes) {
  let at = 0;
  const varint = () => {
    let value = 0,
      scale = 1;
    for (;;) {
      if (at >= bytes.length) throw new Error("the answer is cut");
      const byte = bytes[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  };
  const signed = () => {
    const value = varint();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  };
  if (varint() !== 1) throw new Error("the server speaks another version; load the page again");
  const tracks = Array.from({ length: varint() }, () => ({
    row: varint(),
    track: varint(),
    counter: varint() === 1,
    items: varint(),
    phase: signed(),
  }));
  const text = new TextDecoder();
  const texts = Array.from({ length: varint() }, () => {
    const size = varint();
    return text.decode(bytes.subarray(at, (at += size)));
  });
  const buffers = [];
  const keep = (array) => (buffers.push(array.buffer), array);
  const spans = tracks.filter((track) => !track.counter);
  for (const track of spans) {
    track.begin = keep(new Float32Array(track.items));
    let now = track.phase;
    for (let i = 0; i < track.items; ++i) track.begin[i] = now += signed();
  }
  for (const track of spans) {
    track.end = keep(new Float32Array(track.items));
    track.flags = keep(new Uint8Array(track.items));
    for (let i = 0; i < track.items; ++i) {
      const length = varint();
      track.flags[i] = length % 4;
      track.end[i] = track.begin[i] + Math.floor(length / 4);
    }
  }
  for (const track of spans) {
    track.text = keep(new Uint32Array(track.items));
    for (let i = 0; i < track.items; ++i) track.text[i] = varint();
  }
  for (const track of spans) {
    track.count = keep(new Uint32Array(track.items));
    for (let i = 0; i < track.items; ++i) track.count[i] = varint();
  }
  for (const track of spans) track.busy = keep(bytes.slice(at, (at += track.items)));
  const counters = tracks.filter((track) => track.counter);
  for (const track of counters) {
    track.at = keep(new Float32Array(track.items));
    let now = track.phase;
    for (let i = 0; i < track.items; ++i) track.at[i] = now += signed();
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  for (const track of counters) {
    for (const name of ["least", "most", "last"]) track[name] = keep(new Float64Array(track.items));
    for (let i = 0; i < track.items; ++i, at += 24) {
      track.least[i] = view.getFloat64(at, true);
      track.most[i] = view.getFloat64(at + 8, true);
      track.last[i] = view.getFloat64(at + 16, true);
    }
  }
  const rows = new Map();
  for (const track of tracks) {
    if (!rows.has(track.row)) rows.set(track.row, []);
    rows.get(track.row)[track.track] = track;
  }
  return { rows, texts, buffers };
}

/** {rows, texts, buffers} of a URL; throws what the server says. */
export async function fetchTiles(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return decodeTiles(new Uint8Array(await answer.arrayBuffer()));
}
