// What lies under a point of the canvas, by the tiles that are loaded.
import { isSingle } from "./decode.js";
import { tileSpan, unitOf } from "./tiles.js";

const SNAP = 7; // Pixels from which an edge attracts the pointer.

/**
 * The item at a point, or null:
 * {single, row, track, name, count, busy, begin, end, whole}. One item may stand for `count`
 * events; then `name` is the longest one's and `busy` the share of its time that they fill. `single`: the times
 * are those of one event. `whole`: the tile holds both ends of it.
 */
export function itemAt(view, x, y) {
  const at = view.rowAt(y);
  if (!at || at.item.tracks === 0) return null;
  const when = view.timeAt(x);
  const found = tileAt(view, at.row, when);
  const track = found?.tile.tracks[at.track];
  if (!track) return null;
  const unit = unitOf(found.level);
  const base = found.index * tileSpan(found.level);
  // An event narrower than the pointer can still be hit.
  const slack = (1.5 * (view.end - view.begin)) / view.renderer.width;
  let best = null;
  for (let i = 0; i < track.items; ++i) {
    const begin = base + track.begin[i] * unit;
    const end = base + track.end[i] * unit;
    if (begin > when + slack) break;
    if (end < when - slack) continue;
    const single = isSingle(track, i);
    if (best?.single && !single) continue; // Single events go first.
    best = {
      single,
      row: at.row,
      track: at.track,
      name: found.tile.texts[track.text[i]],
      count: track.count[i],
      busy: track.busy[i] / 255,
      begin,
      end,
      whole: track.flags[i] === 0,
    };
  }
  return best;
}

/** The values of the counters at a point, [{name, least, most, last}]. */
export function countersAt(view, x, y) {
  const at = view.rowAt(y);
  if (!at || at.item.tracks !== 0) return [];
  return at.item.rows.map((row) => valueAt(view, row, view.timeAt(x))).filter(Boolean);
}

function valueAt(view, row, when) {
  const found = tileAt(view, row, when);
  const track = found?.tile.tracks[0];
  if (!track?.at) return null;
  const unit = unitOf(found.level);
  const base = found.index * tileSpan(found.level);
  let last = -1;
  for (let i = 0; i < track.items && base + track.at[i] * unit <= when; ++i) last = i;
  if (last < 0) return null;
  const { name } = view.run.description.rows[row];
  return { name, least: track.least[last], most: track.most[last], last: track.last[last] };
}

/** The finest loaded tile of a row at a time: {tile, level, index}, or null. */
function tileAt(view, row, when) {
  const { store } = view.run;
  const level = Math.min(view.level(), store.coarsest);
  const index = Math.floor(when / tileSpan(level));
  const tile = store.get(row, level, index);
  return tile ? { tile, level, index } : store.coarser(row, level, index);
}

/** {when, item}: the time at a point or, near an event's edge, the edge's and the event. */
export function snap(view, x, y) {
  const item = itemAt(view, x, y);
  let when = view.timeAt(x);
  let near = SNAP;
  for (const edge of item?.single ? [item.begin, item.end] : []) {
    const away = Math.abs(view.x(edge) - x);
    if (away < near) [when, near] = [edge, away];
  }
  return { when, item: near < SNAP ? item : null };
}

/** Like snap(), but exact: tiles round an event's edges, the server knows them. */
export async function snapExactly(view, x, y) {
  const { when, item } = snap(view, x, y);
  if (!item) return when;
  try {
    const event = await view.run.api.get("event", {
      row: item.row,
      track: item.track,
      at: (item.begin + item.end) / 2,
      slop: 0,
    });
    const { beginPs } = event;
    const endPs = beginPs + event.durationPs;
    return Math.abs(beginPs - when) < Math.abs(endPs - when) ? beginPs : endPs;
  } catch {
    return when;
  }
}
