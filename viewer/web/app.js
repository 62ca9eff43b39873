// The viewer: state, keys, pointer, and what asks the server for what.
import { Api, ranges } from "./api.js";
import { count, exact, time } from "./format.js";
import { Labels } from "./labels.js";
import { Layout, TRACK } from "./layout.js";
import { drawOverlay } from "./overlay.js";
import { Panel } from "./panel.js";
import { readLink, writeLink } from "./permalink.js";
import { AXIS, Renderer } from "./renderer.js";
import { levelFor, TileStore, tileSpan, unitOf } from "./tiles.js";

const $ = (id) => document.getElementById(id);
const LEAST_SPAN = 200; // Picoseconds: less tells nothing.
const SNAP = 7; // Pixels.
const SETTLED = 120; // Milliseconds of rest before arrows and the link follow.
const SHIFTED = {
  "!": "select",
  "@": "pan",
  "#": "zoom",
  $: "timing",
  1: "select",
  2: "pan",
  3: "zoom",
  4: "timing",
};

const canvas = $("canvas");
const renderer = new Renderer(canvas);
const panel = new Panel({ jump, zoom: zoomToStep, closed: () => canvas.focus() });
const labels = new Labels($("labels"), { toggleSection, toggleRow, pin, openTable });

let api = null,
  description = null,
  store = null,
  layout = null;
const view = { begin: 0, end: 1 };
const state = {
  tool: "select",
  top: 0,
  selected: [],
  marks: [],
  shades: [],
  arrows: [],
  flows: false,
  box: null,
  timing: null,
  pointer: null,
};
const find = { text: "", regex: false, matchCase: false, total: 0, current: null };
const held = new Set(); // Keys that are down.
let dirty = true,
  moved = 0,
  lastFrame = 0,
  arrowNumber = 0;

// ---- Loading -------------------------------------------------------------------------------------

async function start() {
  const link = readLink();
  setTheme(
    localStorage.getItem("theme") ??
      (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"),
  );
  // Both at once: without a name the server takes the first run.
  const opened = openRun(link.run, link);
  try {
    const { runs, place } = await new Api("").get("runs");
    document.title = `${place} – Strobe`;
    $("run").replaceChildren(...runs.map((run) => new Option(run, run, false, run === link.run)));
    $("run").title = place;
    await opened;
  } catch (error) {
    fail(error);
  }
}

async function openRun(run, link = {}) {
  api = new Api(run);
  const opened = api;
  const progress = $("progress");
  for (;;) {
    const answer = await opened.get("run"); // The server waits a moment before it says "loading".
    if (opened !== api) return; // Another run was chosen meanwhile.
    if (!answer.loading) {
      show(answer, link);
      break;
    }
    progress.hidden = false;
    progress.firstElementChild.style.width = `${answer.total ? (100 * answer.done) / answer.total : 0}%`;
    progress.setAttribute(
      "aria-valuenow",
      answer.total ? Math.round((100 * answer.done) / answer.total) : 0,
    );
    progress.lastElementChild.textContent = answer.total
      ? `Reading ${count(answer.total)} events: ${count(answer.done)}`
      : "Opening the traces…";
  }
  progress.hidden = true;
}

function show(answer, link) {
  store?.close();
  description = answer;
  api.run = answer.run;
  store = new TileStore(api, description, redraw, fail);
  layout = new Layout(description);
  Object.assign(state, { top: 0, selected: [], marks: [], shades: [], arrows: [] });
  layout.pinned = (link.pins ?? []).filter((row) => row >= 0 && row < description.rows.length);
  $("row-filter").value = link.filter ?? "";
  resize();
  setFilter();
  scroll(link.top ?? 0);
  if (link.end > link.begin) setView(link.begin, link.end);
  else wholeTrace();
  want(bands()); // While the first frame is drawn.
  for (let i = 0; i + 1 < (link.marks?.length ?? 0); i += 2)
    state.marks.push({ begin: link.marks[i], end: link.marks[i + 1] });
  if (link.find) {
    $("find-text").value = link.find;
    find.regex = link.regex;
    $("find-regex").setAttribute("aria-pressed", String(find.regex));
    search(0);
  }
  if (link.event?.length === 3)
    selectEvent({ row: link.event[0], track: link.event[1], ordinal: link.event[2] });
  const problems = [
    ...description.warnings,
    ...description.workers.flatMap((worker) =>
      worker.problems.map((text) => `${worker.name}: ${text}`),
    ),
  ];
  if (description.events === 0)
    fail(new Error("These traces hold no events. strobe inspect says more."));
  else if (problems.length) tell(problems.join("\n"));
}

function fail(error) {
  tell(error.message ?? String(error));
  if (!description) {
    const note = document.createElement("p");
    note.className = "note problem";
    note.textContent = error.message ?? String(error);
    panel.show("problem", "The traces cannot be shown", note);
  }
}

/** For whoever listens to the page. */
function say(text) {
  $("announce").textContent = text;
}

/** For everybody, for a while. */
function tell(text) {
  say(text);
  const notice = $("notice");
  notice.textContent = text;
  notice.hidden = false;
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => {
    notice.hidden = true;
  }, 6000);
}

// ---- View ----------------------------------------------------------------------------------------

function setView(begin, end) {
  const whole = description.endPs - description.beginPs || 1;
  let span = Math.min(Math.max(end - begin, LEAST_SPAN), 1.2 * whole + LEAST_SPAN);
  const middle = (begin + end) / 2;
  view.begin = middle - span / 2;
  view.end = middle + span / 2;
  // A part of the trace stays in sight.
  const low = description.beginPs - span * 0.5,
    high = description.endPs + span * 0.5;
  const shift = Math.max(0, low - view.begin) - Math.max(0, view.end - high);
  view.begin += shift;
  view.end += shift;
  settle();
}

function wholeTrace() {
  const margin = (description.endPs - description.beginPs) * 0.01 + 1;
  setView(description.beginPs - margin, description.endPs + margin);
}

function zoom(factor, x) {
  const at = timeAt(x);
  setView(at - (at - view.begin) * factor, at + (view.end - at) * factor);
}

function pan(pixels) {
  const shift = (pixels / renderer.width) * (view.end - view.begin);
  setView(view.begin + shift, view.end + shift);
}

function scroll(pixels) {
  const room = Math.max(0, layout.height - (renderer.height - AXIS - layout.pinHeight));
  state.top = Math.min(room, Math.max(0, state.top + pixels));
  settle();
}

function timeAt(x) {
  return view.begin + (x / renderer.width) * (view.end - view.begin);
}

function settle() {
  moved = performance.now();
  redraw();
  clearTimeout(settle.timer);
  settle.timer = setTimeout(() => {
    link();
    if (state.flows) fetchArrows();
  }, SETTLED);
}

function link() {
  if (!description) return;
  writeLink({
    run: api.run,
    view,
    top: state.top,
    pins: layout.pinned,
    filter: $("row-filter").value,
    find: find.text,
    regex: find.regex,
    event: state.selected.length === 1 ? state.selected[0] : null,
    marks: state.marks,
  });
}

function bands() {
  const below = AXIS + layout.pinHeight;
  return [
    {
      items: layout.visible(state.top, state.top + renderer.height - below),
      top: below - state.top,
      from: below,
      to: renderer.height,
    },
    { items: layout.pins, top: AXIS, from: AXIS, to: below },
  ];
}

function redraw() {
  dirty = true;
}

function resize() {
  if (!description) return;
  const box = $("stage").getBoundingClientRect();
  const width = Math.max(50, box.width - $("labels").offsetWidth),
    height = Math.max(50, box.height);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  renderer.resize(width, height, devicePixelRatio || 1);
  scroll(0);
}

/** Top of a track on the canvas, or null when it is not in sight. */
function placeOf(row, track) {
  for (const band of bands().reverse()) {
    const item = band.items.find((candidate) => candidate.row === row);
    if (!item) continue;
    const y = band.top + item.y + Math.min(track, Math.max(0, item.tracks - 1)) * TRACK;
    if (y >= band.from - TRACK && y < band.to) return y;
  }
  return null;
}

/** {row, track, item} at a height, or null. */
function rowAt(y) {
  for (const band of bands().reverse()) {
    if (y < band.from || y >= band.to) continue;
    const item = band.items.find(
      (candidate) => y >= band.top + candidate.y && y < band.top + candidate.y + candidate.height,
    );
    if (!item || item.type !== "row") return null;
    return {
      row: item.row,
      track: Math.min(Math.floor((y - band.top - item.y) / TRACK), Math.max(0, item.tracks - 1)),
      item,
    };
  }
  return null;
}

function frame(now) {
  const elapsed = Math.min(50, now - lastFrame);
  lastFrame = now;
  if (description) {
    moveHeld(elapsed);
    if (dirty) {
      dirty = false;
      const shown = bands();
      const level = levelFor(view, renderer.width);
      renderer.draw(view, shown, store, level);
      drawOverlay(renderer, view, state, placeOf);
      labels.draw(
        description,
        layout,
        shown,
        renderer.height,
        `${count(description.events)} events`,
      );
      want(shown);
    }
  }
  requestAnimationFrame(frame);
}

function want(shown) {
  const rows = new Set(
    shown
      .flatMap((band) => band.items)
      .filter((item) => item.type === "row")
      .map((item) => item.row),
  );
  store.want([...rows], view, levelFor(view, renderer.width));
}

function moveHeld(elapsed) {
  if (held.size === 0) return;
  const x = state.pointer?.x ?? renderer.width / 2;
  if (held.has("w")) zoom(0.997 ** elapsed, x);
  if (held.has("s")) zoom(1.003 ** elapsed, x);
  if (held.has("a")) pan(-elapsed * 0.9);
  if (held.has("d")) pan(elapsed * 0.9);
  if (held.has("ArrowUp")) scroll(-elapsed * 0.6);
  if (held.has("ArrowDown")) scroll(elapsed * 0.6);
}

// ---- Selection -----------------------------------------------------------------------------------

async function selectEvent(which, add = false) {
  try {
    const event = await api.get("event", which);
    const same = state.selected.findIndex(
      (other) =>
        other.row === event.row && other.track === event.track && other.ordinal === event.ordinal,
    );
    if (!add) state.selected = [event];
    else if (same >= 0) state.selected.splice(same, 1);
    else state.selected.push(event);
    showSelection();
    return event;
  } catch (error) {
    if (!add) clearSelection();
    tell(error.message);
    return null;
  }
}

function showSelection() {
  if (state.selected.length === 0) {
    clearSelection();
  } else if (state.selected.length === 1) {
    const [event] = state.selected;
    panel.event(event);
    say(`${event.name}, ${exact(event.durationPs)}, on ${event.line}`);
    state.arrows = state.flows ? state.arrows : arrowsOf(event);
  } else {
    const sums = new Map();
    for (const { name, durationPs, selfPs } of state.selected) {
      const sum = sums.get(name) ?? { name, count: 0, wallPs: 0, selfPs: 0 };
      sums.set(name, {
        name,
        count: sum.count + 1,
        wallPs: sum.wallPs + durationPs,
        selfPs: sum.selfPs + selfPs,
      });
    }
    panel.selection(`${count(state.selected.length)} events selected`, [...sums.values()]);
    say(`${state.selected.length} events selected`);
  }
  settle();
}

function arrowsOf(event) {
  const own = {
    row: event.row,
    track: event.track,
    beginPs: event.beginPs,
    durationPs: event.durationPs,
  };
  return [...event.in.map((from) => [from, own]), ...event.out.map((to) => [own, to])];
}

function clearSelection() {
  state.selected = [];
  state.selection = null;
  state.shades = [];
  if (!state.flows) state.arrows = [];
  if (["event", "selection"].includes(panel.kind)) panel.hide();
  settle();
}

async function selectBox({ x0, y0, x1, y1 }) {
  const begin = timeAt(Math.min(x0, x1)),
    end = timeAt(Math.max(x0, x1));
  const low = Math.min(y0, y1),
    high = Math.max(y0, y1);
  const tracks = [];
  for (const band of bands()) {
    for (const item of band.items) {
      if (item.type !== "row" || item.tracks === 0) continue;
      const top = band.top + item.y;
      const first = Math.max(0, Math.floor((Math.max(low, band.from) - top) / TRACK)),
        last = Math.min(item.tracks - 1, Math.floor((Math.min(high, band.to) - top) / TRACK));
      if (last >= first && high > top && low < top + item.tracks * TRACK)
        tracks.push(`${item.row}:${first}-${last}`);
    }
  }
  if (tracks.length === 0) return clearSelection();
  try {
    const answer = await api.get("select", { tracks: tracks.join(","), begin, end });
    if (answer.count === 0) return clearSelection();
    state.selected = [];
    state.selection = { begin: answer.beginPs, end: answer.endPs };
    state.shades = [{ begin, end }];
    panel.selection(`${count(answer.count)} events selected`, answer.names);
    say(`${count(answer.count)} events selected`);
    settle();
  } catch (error) {
    tell(error.message);
  }
}

/** {begin, end} of what is selected, or null. */
function selectedTime() {
  if (state.selected.length === 0) return state.selection ?? null;
  return {
    begin: Math.min(...state.selected.map((event) => event.beginPs)),
    end: Math.max(...state.selected.map((event) => event.beginPs + event.durationPs)),
  };
}

function zoomToSelection() {
  const selected = selectedTime() ?? state.marks.at(-1);
  if (!selected) return tell("Nothing is selected.");
  const margin = Math.max((selected.end - selected.begin) * 0.1, LEAST_SPAN / 4);
  setView(selected.begin - margin, selected.end + margin);
}

function markSelection() {
  const selected = selectedTime();
  if (!selected) return tell("Nothing is selected.");
  const same = state.marks.findIndex(
    (mark) => mark.begin === selected.begin && mark.end === selected.end,
  );
  if (same >= 0) state.marks.splice(same, 1);
  else state.marks.push(selected);
  tell(same >= 0 ? "The mark is gone." : `Marked ${exact(selected.end - selected.begin)}.`);
  settle();
}

async function jump(hit) {
  const row = hit.row;
  if (layout.tracksOf(row) <= hit.track) {
    layout.shut.delete(row);
    layout.open.add(row);
  }
  layout.reveal(row);
  const span = view.end - view.begin,
    end = hit.beginPs + hit.durationPs;
  if (hit.durationPs > span * 0.9 || hit.durationPs < span / 2000) {
    const wanted = Math.max(hit.durationPs * 12, LEAST_SPAN * 4);
    const middle = (hit.beginPs + end) / 2;
    setView(middle - wanted / 2, middle + wanted / 2);
  } else if (hit.beginPs < view.begin || end > view.end) {
    const middle = (hit.beginPs + end) / 2;
    setView(middle - span / 2, middle + span / 2);
  }
  const item = layout.itemOf(row),
    room = renderer.height - AXIS - layout.pinHeight;
  if (item && !layout.pinned.includes(row)) {
    const y = item.y + hit.track * TRACK;
    if (y < state.top || y + TRACK * 2 > state.top + room) scroll(y - room / 3 - state.top);
  }
  await selectEvent({ row, track: hit.track, ordinal: hit.ordinal });
}

async function neighbour(direction) {
  const [event] = state.selected;
  const ordinal = event.ordinal + direction;
  const next =
    ordinal < 0
      ? null
      : await api.get("event", { row: event.row, track: event.track, ordinal }).catch(() => null);
  if (next) await jump(next);
  else tell("There is no further event at this depth of the row.");
}

function zoomToStep(begin, end, step) {
  const starts = step.workers.map((part) => part.beginPs);
  state.shades = [{ begin: Math.min(...starts), end: Math.max(...starts) }];
  const margin = (end - begin) * 0.05 + LEAST_SPAN;
  setView(begin - margin, end + margin);
}

// ---- Rows ----------------------------------------------------------------------------------------

function changed() {
  layout.update();
  scroll(0);
}

function toggleSection(key) {
  if (!layout.closed.delete(key)) layout.closed.add(key);
  changed();
}

function toggleRow(row) {
  const whole = layout.tracksOf(row) === description.rows[row].tracks;
  layout[whole ? "shut" : "open"].add(row);
  layout[whole ? "open" : "shut"].delete(row);
  changed();
}

function pin(row) {
  layout.pin(row);
  scroll(0);
}

async function openTable(row, from = view.begin) {
  try {
    const limit = 100;
    const { hits } = await api.get("events", { rows: String(row), from, limit });
    const last = hits.at(-1);
    const name = description.rows[row].name;
    panel.events(
      "table",
      `Events of ${name}`,
      description,
      hits,
      hits.length === limit ? () => openTable(row, last.beginPs + 1) : null,
    );
    say(`${hits.length} events of ${name}`);
  } catch (error) {
    tell(error.message);
  }
}

function setFilter() {
  const text = $("row-filter").value.toLowerCase();
  layout.filter =
    text &&
    ((number) => {
      const row = description.rows[number];
      return `${description.workers[row.worker].name} ${row.plane} ${row.name}`
        .toLowerCase()
        .includes(text);
    });
  changed();
}

// ---- Finding -------------------------------------------------------------------------------------

/** direction: 0 from the beginning of the view, 1 next, -1 previous. */
async function search(direction) {
  find.text = $("find-text").value;
  if (!find.text) {
    renderer.setHighlight(null);
    $("find-count").textContent = "";
    if (panel.kind === "found") panel.hide();
    return settle();
  }
  const from =
    find.current === null || direction === 0
      ? view.begin
      : direction > 0
        ? find.current.beginPs
        : find.current.beginPs + 1;
  try {
    const question = {
      q: find.text,
      regex: find.regex ? 1 : 0,
      case: find.matchCase ? 1 : 0,
      limit: 100,
    };
    const matches = matcher();
    if (matches) renderer.setHighlight(matches);
    let { total, kinds, hits } = await api.get("find", {
      ...question,
      from,
      backwards: direction < 0 ? 1 : 0,
    });
    const number = hits.findIndex(
      (hit) =>
        find.current &&
        hit.row === find.current.row &&
        hit.track === find.current.track &&
        hit.ordinal === find.current.ordinal,
    );
    if (direction !== 0 && number >= 0) hits = hits.slice(number + 1);
    let round = false;
    if (hits.length === 0 && total > 0) {
      round = true;
      ({ hits } = await api.get("find", {
        ...question,
        from: direction < 0 ? description.endPs + 1 : description.beginPs,
        backwards: direction < 0 ? 1 : 0,
      }));
    }
    $("find-count").textContent =
      total === 0
        ? "nothing found"
        : `${count(total)} events, ${count(kinds)} ${kinds === 1 ? "name" : "names"}`;
    if (hits.length === 0) return redraw();
    panel.events(
      "found",
      `${count(total)} events match “${find.text}”${round ? ", from the other end" : ""}`,
      description,
      hits,
      null,
    );
    if (direction !== 0) {
      find.current = hits[0];
      await jump(hits[0]);
    }
    settle();
  } catch (error) {
    $("find-count").textContent = error.message;
  }
}

/** What the server matches by, for the names in sight. RE2 knows a little more than the browser. */
function matcher() {
  try {
    const source = find.regex ? find.text : find.text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const pattern = new RegExp(source, find.matchCase ? "u" : "iu");
    return (name) => pattern.test(name);
  } catch {
    return null;
  }
}

// ---- Arrows, workers -------------------------------------------------------------------------------

async function fetchArrows() {
  const rows = bands()
    .flatMap((band) => band.items)
    .filter((item) => item.type === "row")
    .map((item) => item.row);
  const number = ++arrowNumber;
  if (rows.length === 0) return;
  try {
    const { total, arrows } = await api.get("arrows", {
      rows: ranges(new Set(rows)),
      begin: view.begin,
      end: view.end,
      limit: 400,
    });
    if (number !== arrowNumber || !state.flows) return;
    const end = ([row, track, ordinal, beginPs, durationPs]) => ({
      row,
      track,
      ordinal,
      beginPs,
      durationPs,
    });
    state.arrows = arrows.map(([from, to]) => [end(from), end(to)]);
    $("flows").title = `${count(arrows.length)} of ${count(total)} flow events drawn (v)`;
    tell(`${count(arrows.length)} of ${count(total)} flow events are drawn`);
    redraw();
  } catch (error) {
    tell(error.message);
  }
}

function toggleFlows() {
  state.flows = !state.flows;
  $("flows").setAttribute("aria-pressed", String(state.flows));
  state.arrows = state.selected.length === 1 ? arrowsOf(state.selected[0]) : [];
  if (state.flows) fetchArrows();
  redraw();
}

async function toggleCompare() {
  if (panel.kind === "compare") return panel.hide();
  try {
    const { steps } = await api.get("steps");
    panel.compare(description, steps);
  } catch (error) {
    tell(error.message);
  }
}

// ---- Pointer -------------------------------------------------------------------------------------

function setTool(tool) {
  state.tool = tool;
  for (const button of $("tools").children)
    button.setAttribute("aria-pressed", String(button.dataset.tool === tool));
  canvas.style.cursor = { select: "default", pan: "grab", zoom: "zoom-in", timing: "col-resize" }[
    tool
  ];
}

/** The item of the loaded tiles under the pointer: {name, count, begin, end} or null. */
function itemAt(x, y) {
  const at = rowAt(y);
  if (!at || at.item.tracks === 0) return null;
  const level = Math.min(levelFor(view, renderer.width), store.overview);
  const when = timeAt(x);
  const index = Math.floor(when / tileSpan(level));
  const found = store.get(at.row, level, index)
    ? { tile: store.get(at.row, level, index), level, index }
    : store.coarser(at.row, level, index);
  const track = found?.tile.tracks[at.track];
  if (!track) return null;
  const unit = unitOf(found.level),
    base = found.index * tileSpan(found.level);
  const slack = (1.5 * (view.end - view.begin)) / renderer.width;
  let best = null;
  for (let i = 0; i < track.items; ++i) {
    const begin = base + track.begin[i] * unit,
      end = base + track.end[i] * unit;
    if (begin > when + slack) break;
    if (end >= when - slack && (!best || track.count[i] === 1 || best.count > 1))
      best = {
        ...at,
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

/** The time at x, or the edge of an event near it. */
function snap(x, y) {
  const item = itemAt(x, y);
  let when = timeAt(x),
    near = SNAP;
  for (const edge of item && item.count === 1 ? [item.begin, item.end] : []) {
    const away = Math.abs(renderer.x(edge, view) - x);
    if (away < near) [when, near] = [edge, away];
  }
  return { when, item: near < SNAP ? item : null };
}

/** The same, to the picosecond: the server knows where the event's edge is. */
async function snapExactly(x, y) {
  const { when, item } = snap(x, y);
  if (!item) return when;
  try {
    const event = await api.get("event", {
      row: item.row,
      track: item.track,
      at: (item.begin + item.end) / 2,
      slop: 0,
    });
    return Math.abs(event.beginPs - when) < Math.abs(event.beginPs + event.durationPs - when)
      ? event.beginPs
      : event.beginPs + event.durationPs;
  } catch {
    return when;
  }
}

let drag = null;

canvas.addEventListener("pointerdown", (event) => {
  if (!description || event.button !== 0) return;
  canvas.setPointerCapture(event.pointerId);
  canvas.focus();
  drag = {
    x: event.offsetX,
    y: event.offsetY,
    lastX: event.offsetX,
    lastY: event.offsetY,
    moved: false,
    add: event.ctrlKey || event.metaKey,
  };
  hint(null);
});

canvas.addEventListener("pointermove", (event) => {
  if (!description) return;
  const { offsetX: x, offsetY: y } = event;
  state.pointer = { x, y };
  redraw();
  if (!drag) return hint(event);
  if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 4) drag.moved = true;
  if (!drag.moved) return;
  if (state.tool === "pan") {
    pan(drag.lastX - x);
    scroll(drag.lastY - y);
  } else if (state.tool === "timing") {
    const a = snap(drag.x, drag.y).when,
      b = snap(x, y).when;
    state.timing = { begin: Math.min(a, b), end: Math.max(a, b) };
  } else {
    state.box =
      state.tool === "zoom"
        ? { x0: drag.x, y0: AXIS, x1: x, y1: renderer.height }
        : { x0: drag.x, y0: drag.y, x1: x, y1: y };
  }
  drag.lastX = x;
  drag.lastY = y;
});

canvas.addEventListener("pointerup", async (event) => {
  if (!drag) return;
  const { offsetX: x, offsetY: y } = event,
    was = drag,
    box = state.box;
  drag = null;
  state.box = null;
  redraw();
  if (state.tool === "timing" && was.moved) {
    const [a, b] = await Promise.all([snapExactly(was.x, was.y), snapExactly(x, y)]);
    state.timing = { begin: Math.min(a, b), end: Math.max(a, b) };
    say(`${exact(Math.abs(b - a))}`);
    return redraw();
  }
  if (state.tool === "zoom" && box)
    return setView(timeAt(Math.min(box.x0, box.x1)), timeAt(Math.max(box.x0, box.x1)));
  if (state.tool === "zoom" && !was.moved) return zoom(0.5, x);
  if (state.tool === "select" && box) return selectBox(box);
  if (was.moved) return;
  const item = itemAt(x, y);
  if (!item) return was.add ? undefined : clearSelection();
  const single = item.count === 1;
  const slop = single ? 0 : item.end - item.begin;
  await selectEvent(
    {
      row: item.row,
      track: item.track,
      at: single ? Math.max(item.begin, Math.min(timeAt(x), item.end)) : item.begin,
      slop: Math.max(slop, unitOf(levelFor(view, renderer.width))),
    },
    was.add,
  );
});

canvas.addEventListener("pointercancel", () => {
  drag = state.box = null;
  redraw();
});
canvas.addEventListener("pointerleave", () => {
  state.pointer = null;
  hint(null);
  redraw();
});
canvas.addEventListener("dblclick", () => state.selected.length && zoomToSelection());
canvas.addEventListener("wheel", wheel, { passive: false });
$("labels").addEventListener("wheel", wheel, { passive: false });

function wheel(event) {
  if (!description) return;
  event.preventDefault();
  const step = event.deltaMode === 1 ? 16 : 1;
  if (event.ctrlKey || event.metaKey)
    zoom(
      1.0015 ** (event.deltaY * step),
      event.currentTarget === canvas ? event.offsetX : renderer.width / 2,
    );
  else if (event.shiftKey) pan((event.deltaX || event.deltaY) * step);
  else {
    if (event.deltaX) pan(event.deltaX * step);
    scroll(event.deltaY * step);
  }
}

function hint(event) {
  const node = $("hint");
  const item = event && itemAt(event.offsetX, event.offsetY);
  node.hidden = !item;
  if (!item) return;
  node.textContent =
    item.count === 1
      ? `${item.name}\n${item.whole ? time(item.end - item.begin) : "goes on out of sight"}`
      : `${count(item.count)} events here, ${Math.round(item.busy * 100)} % busy\nlongest: ${item.name}`;
  node.style.whiteSpace = "pre-wrap";
  const left = $("labels").offsetWidth + event.offsetX + 14;
  node.style.left = `${Math.min(left, $("stage").clientWidth - node.offsetWidth - 4)}px`;
  node.style.top = `${Math.min(event.offsetY + 16, $("stage").clientHeight - node.offsetHeight - 4)}px`;
}

// ---- Keys ----------------------------------------------------------------------------------------

const HELD = new Set(["w", "a", "s", "d", "ArrowUp", "ArrowDown"]);

addEventListener("keydown", (event) => {
  if (!description || event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "Escape") {
    if (typing) return canvas.focus();
    if (state.selected.length || state.selection) return clearSelection();
    Object.assign(state, { marks: [], timing: null, shades: [] });
    return settle();
  }
  if (typing) return;
  // Keys that a focused button, or text that scrolls, has a use for itself.
  const elsewhere = event.target !== canvas && event.target !== document.body;
  if (elsewhere && ["Enter", " "].includes(event.key)) return;
  if (elsewhere && event.target.id === "panel-body" && event.key.startsWith("Arrow")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (HELD.has(key)) {
    held.add(key);
    event.preventDefault();
    return;
  }
  const actions = {
    ArrowLeft: () => (state.selected.length === 1 ? neighbour(-1) : pan(-renderer.width / 8)),
    ArrowRight: () => (state.selected.length === 1 ? neighbour(1) : pan(renderer.width / 8)),
    f: zoomToSelection,
    m: markSelection,
    v: toggleFlows,
    c: toggleCompare,
    p: () => state.selected.length === 1 && pin(state.selected[0].row),
    0: wholeTrace,
    "/": () => $("find-text").focus(),
    "?": () => $("keys").showModal(),
  };
  const tool = SHIFTED[event.key];
  if (tool) setTool(tool);
  else if (actions[key]) actions[key]();
  else return;
  event.preventDefault();
});
addEventListener("keyup", (event) =>
  held.delete(event.key.length === 1 ? event.key.toLowerCase() : event.key),
);
addEventListener("blur", () => held.clear());
addEventListener("resize", resize);

// ---- Buttons -------------------------------------------------------------------------------------

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  renderer.setTheme(theme);
  redraw();
}

async function savePicture() {
  // The names stand beside the canvas; the picture has both.
  const width = $("labels").offsetWidth,
    ratio = renderer.ratio,
    { theme } = renderer;
  const picture = document.createElement("canvas");
  picture.width = canvas.width + width * ratio;
  picture.height = canvas.height;
  const context = picture.getContext("2d");
  context.fillStyle = `rgb(${theme.band})`;
  context.fillRect(0, 0, picture.width, picture.height);
  context.drawImage(canvas, width * ratio, 0);
  context.scale(ratio, ratio);
  context.fillStyle = theme.text;
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "top";
  context.beginPath();
  context.rect(0, 0, width - 6, renderer.height);
  context.clip();
  for (const band of bands()) {
    for (const item of band.items) {
      if (band.top + item.y < band.from - 2) continue;
      const text =
        item.type === "section" ? item.section.title : `    ${description.rows[item.row].name}`;
      context.fillText(text, 6, band.top + item.y + 2);
    }
  }
  const blob = await new Promise((resolve) => picture.toBlob(resolve, "image/png"));
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(blob);
  anchor.download = `${api.run || "trace"}.png`;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

$("run").onchange = () => openRun($("run").value).catch(fail);
$("row-filter").oninput = () => description && setFilter();
$("find").onsubmit = (event) => {
  event.preventDefault();
  search(1);
};
$("find-text").oninput = () => {
  find.current = null;
  clearTimeout(search.timer);
  search.timer = setTimeout(() => search(0), 200);
};
$("find-text").onkeydown = (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  clearTimeout(search.timer);
  search(event.shiftKey ? -1 : 1);
};
$("find-previous").onclick = () => search(-1);
for (const [id, name] of [
  ["find-regex", "regex"],
  ["find-case", "matchCase"],
]) {
  $(id).onclick = () => {
    find[name] = !find[name];
    $(id).setAttribute("aria-pressed", String(find[name]));
    find.current = null;
    search(0);
  };
}
for (const button of $("tools").children) button.onclick = () => setTool(button.dataset.tool);
$("flows").onclick = toggleFlows;
$("compare").onclick = toggleCompare;
$("export").onclick = savePicture;
$("help").onclick = () => $("keys").showModal();
$("theme").onclick = () => {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("theme", theme);
  setTheme(theme);
};
addEventListener("hashchange", () => location.reload());

// For tests, and for whoever embeds the page: what is shown, and whether more is on its way.
globalThis.strobe = {
  get view() {
    return { ...view };
  },
  get state() {
    return state;
  },
  get description() {
    return description;
  },
  get layout() {
    return layout;
  },
  get idle() {
    return Boolean(description) && store.quiet && !dirty && performance.now() - moved > SETTLED;
  },
  get painted() {
    return Boolean(description) && store.rows.some((tiles) => tiles.size > 0) && !dirty;
  },
  placeOf,
  x: (ps) => renderer.x(ps, view),
};

requestAnimationFrame(frame);
start();
