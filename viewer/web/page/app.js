// Ties the page together: makes its parts, opens runs, draws frames.
import { Api } from "../shared/api.js";
import { Alignment } from "./alignment.js";
import { Coloring } from "../timeline/coloring.js";
import { element } from "../shared/elements.js";
import { Flows } from "../timeline/flows.js";
import { firstLines, several, time } from "../shared/format.js";
import { Graph, xprofRun } from "../timeline/graph.js";
import { Hint } from "../timeline/hint.js";
import { Keys } from "./keys.js";
import { Labels } from "../timeline/labels.js";
import { Layout } from "../timeline/layout.js";
import { Loading, watchArrivals } from "./loading.js";
import { Marks } from "../timeline/marks.js";
import { Notices } from "./notices.js";
import { drawOverlay } from "../timeline/overlay.js";
import { OverviewTab } from "../overview/tab.js";
import { openInPerfetto } from "../shared/perfetto.js";
import { Panel } from "../timeline/panel.js";
import {
  leaveLink,
  linkTo,
  namesNoPlace,
  readLink,
  replaceLink,
  watchHistory,
  writeLink,
} from "./permalink.js";
import { savePicture } from "../timeline/picture.js";
import { Places } from "../overview/places.js";
import { Pointer } from "../timeline/pointer.js";
import { Renderer } from "../timeline/renderer.js";
import { CHEAP, Landing, NEVER } from "../overview/report.js";
import { Rows } from "../timeline/rows.js";
import { Search } from "../timeline/search.js";
import { Selection } from "../timeline/selection.js";
import { labelSplitter, panelSplitter } from "../timeline/splitter.js";
import { Strip } from "../timeline/strip.js";
import { followTheme } from "../shared/browser.js";
import { TablesTab } from "../tables/tab.js";
import { OVERVIEW, TABLES, Tabs, TIMELINE } from "./tabs.js";
import { TileStore } from "../timeline/tiles.js";
import { Toolbox } from "../timeline/toolbox.js";
import { problemsOf, Troubles } from "./troubles.js";
import { View } from "../timeline/view.js";

const NOT_FOUND = 404;
const MAX_FRAME_MS = 50; // A page that was hidden does not leap when it is shown again.

const $ = (id) => document.getElementById(id);

// ---- The parts, each made of those above it ---------------------------------------------------

const canvas = $("canvas");
const notices = new Notices($("announce"), $("notice"));
const loading = new Loading($("progress"));
const renderer = new Renderer(canvas);
const view = new View(renderer, $("stage"), $("labels"), settled, (why) => rows.dropFilter(why));
const strip = new Strip($("strip"), $("strip-canvas"), $("strip-frame"), view);
const panel = new Panel({
  jump: jumpTo,
  zoomToStep: (step) => selection.zoomToStep(step),
  openGraph: (hlo) => graph.open(hlo),
  closed: () => canvas.focus(),
  resized,
});
const flows = new Flows($("flows"), view, notices);
const selection = new Selection(view, flows, panel, notices);
const coloring = new Coloring(view, {
  list: $("color-by"),
  legend: $("color-legend"),
  notices,
});
const marks = new Marks(view, notices);
const rows = new Rows($("row-filter"), view, panel, notices);
const search = new Search(view, jumpTo, panel, (hits) => strip.mark(hits));
const graph = new Graph(view, panel, {
  find: (text) => search.restore(text, false),
  back: () => selection.show(),
  told: (text) => notices.tell(text),
});
const labels = new Labels($("labels"), {
  toggleSection: (key) => rows.toggleSection(key),
  toggleRow: (row) => rows.toggleRow(row),
  pin: (row) => rows.togglePin(row),
  compare: (row) => rows.compare(row),
  openTable: (row) => rows.openTable(row),
});
const hint = new Hint($("hint"), $("stage"), canvas, view);
const pointer = new Pointer(canvas, view, selection, marks, hint, notices);
const places = new Places(view, selection, search, notices);
const tabs = new Tabs($("tabs"), tabShown, leave);
const overview = new OverviewTab($("overview"), {
  go: goTo,
  linkTo: (place) => linkTo((view.run?.api ?? asked).run, place),
  say: (text) => notices.say(text),
  found: markOdd,
});
const tables = new TablesTab($("tables"), {
  go: goTo,
  say: (text) => notices.say(text),
  changed: () => view.settle(),
  hasXprof: () => Boolean(panel.xprof),
});
const keys = new Keys(canvas, view, pointer, selection, marks, panel, {
  ArrowLeft: () => (selection.single ? selection.step(-1) : view.pan(-renderer.width / 8)),
  ArrowRight: () => (selection.single ? selection.step(1) : view.pan(renderer.width / 8)),
  f: () => selection.zoom(marks.active),
  m: () => marks.toggle(selection.time()),
  v: toggleFlows,
  c: toggleComparison,
  o: () => tabs.toggle(),
  t: () => tabs.go(TABLES),
  p: () => selection.single && rows.togglePin(selection.single.row),
  0: () => view.showAll(),
  "/": () => $("find-text").focus(),
  "?": showHelp,
});
const toolbox = new Toolbox($("tools"), $("tools-grip"));
const panelSize = panelSplitter(resized);
const splitters = [labelSplitter(resized, () => strip.draw()), panelSize];
const troubles = new Troubles($("troubles"), view, resizeWindow);
const alignment = new Alignment($("align-field"), $("align"), realign);
let asked = new Api(""); // About the run that the page's link names.
let opening = null; // Resolves when the first run is shown.
let comparisons = 0; // Number of the latest question for steps; older answers are dropped.
let lastFrame = 0; // By the clock of requestAnimationFrame.

// ---- Runs -------------------------------------------------------------------------------------

async function start() {
  const link = readLink();
  asked = new Api(link.run);
  tables.first = link.table;
  if (link.tab === OVERVIEW || link.tab === TABLES) tabs.show(link.tab);
  followTheme($("theme"), showTheme);
  const about = (troubles.about = new Api("").get("runs"));
  try {
    // The run is asked for at once: without a name the server takes the first one.
    const opened = openRun(link.run, link).catch((error) => openByEnd(error, link));
    opening = opened;
    const { runs, place, perfetto, xprof, hasList, opensList } = await about;
    // Without a name, the list may be shown instead of a run.
    if (!link.run && opensList) return location.replace("runs.html");
    const landing = new Landing({
      land: () => tabs.show(OVERVIEW),
      ready: (headline) => tabs.mark(OVERVIEW, headline),
      found: markOdd,
    });
    const begins = namesNoPlace(link);
    let shown = null;
    const isShown = () => !shown || view.run === shown;
    if (begins) landing.offer(asked, NEVER, isShown);
    panel.xprof = xprof;
    linkXprof();
    $("perfetto").hidden = !perfetto;
    $("perfetto").onclick = () => handToPerfetto(perfetto);
    $("list").hidden = !hasList;
    document.title = `${place} – Strobe`;
    const choices = link.run && !runs.includes(link.run) ? [link.run, ...runs] : runs;
    $("run").replaceChildren(
      ...choices.map((run) => new Option(run, run, false, run === link.run)),
    );
    $("run").title = place;
    await opened;
    shown = view.run;
    if (begins && shown) landing.offer(shown.api, CHEAP, isShown);
  } catch (error) {
    fail(error);
  }
}

/** With several logdirs, runs are called by their addresses; the end of one may name a run, too. */
async function openByEnd(error, link) {
  const { runs } = error.status === NOT_FOUND && link.run ? await troubles.about : { runs: [] };
  const named = runs.filter((run) => run.endsWith(`/${link.run}`));
  if (named.length !== 1) throw error;
  await openRun(named[0], link);
  $("run").value = named[0];
}

/** `link`: the view to show, as readLink() gives it. */
async function openRun(name, link = {}) {
  const read = await loading.open(name, link.align);
  if (!read) return;
  const { api, description } = read;
  if (view.run) search.reset(); // What was typed while the first run was read stays.
  view.run?.store.close();
  view.run = {
    api,
    description,
    store: new TileStore(api, description, () => view.redraw(), fail),
    layout: new Layout(description),
  };
  view.top = 0;
  tabs.unmark();
  selection.clearAll();
  pointer.cancel();
  panel.hide();
  marks.clear();
  flows.hideEvent();
  flows.clearBundles();
  restore(link); // Asks for the first tiles before others ask for what can wait.
  coloring.open(view.run);
  strip.load();
  alignment.open(view.run);
  troubles.open(view.run);
  tellProblems(description);
  linkXprof();
  if (tabs.current === OVERVIEW) overview.open(view.run.api);
  if (tabs.current === TABLES) tables.open(view.run);
}

/** Shows the run with its workers aligned otherwise. */
function realign(align) {
  leave();
  const { layout, description, api } = view.run;
  const kept = { filter: $("row-filter").value, pins: layout.pinned, top: view.top };
  const opened = openRun(api.run, { ...kept, version: description.version, align });
  const marked = opened.then(() => (view.run.layout.odd = layout.odd)); // They are the same workers.
  marked.catch((error) => {
    alignment.open(view.run); // As before.
    fail(error);
  });
}

/** Leads to XProf's page with the same run, if the server knows one. */
function linkXprof() {
  const link = $("xprof");
  link.hidden = !panel.xprof || !view.run;
  if (!link.hidden) link.href = xprofRun(panel.xprof, view.run.api.run);
}

/** Shows the part of the run that a link names. */
function restore(link) {
  const { layout, description } = view.run;
  const isOfThese = !link.version || link.version === description.version;
  const pins = new Set(isOfThese ? link.pins : []);
  const isRow = (row) => row >= 0 && row < description.rows.length;
  layout.pinned = [...pins].filter(isRow);
  const event = isOfThese && link.event?.length === 3 ? link.event : null;
  if (event && isRow(event[0])) layout.reveal(event[0], event[1]); // It was in sight, so it was open.
  $("row-filter").value = link.filter ?? "";
  resizeWindow();
  rows.filter();
  view.scroll(link.top ?? 0);
  if (link.end > link.begin) view.set(link.begin, link.end);
  else view.showWindow();
  const place = link.worker || link.step !== undefined;
  if (place) places.show(link).catch(fail);
  view.load(); // While the first frame is drawn.
  for (let i = 0; i + 1 < (link.marks?.length ?? 0); i += 2)
    marks.add({ begin: link.marks[i], end: link.marks[i + 1] });
  if (link.find && !place) search.restore(link.find, link.regex);
  if (!isOfThese)
    notices.tell(
      "This run has other traces than when the link was made: its event and its pinned rows are not shown.",
    );
  if (event) {
    const [row, track, ordinal] = event;
    selection.select({ row, track, ordinal });
  }
}

function tellProblems({ events, warnings, workers }) {
  const all = problemsOf(warnings, workers);
  if (events > 0 && all.length > 0) notices.tell(firstLines(all));
}

/** Says in the timeline's place why it is empty, for as long as it is. */
function tellEmpty({ events }, { items }) {
  const filter = $("row-filter").value;
  let why = "";
  if (events === 0) why = "These traces hold no events. strobe inspect says more.";
  else if (items.length === 0 && filter) why = `No row matches “${filter}”.`;
  if (why !== $("empty").textContent) $("empty").textContent = why;
}

/** Shows an error, for good when there is no run to show instead. */
function fail(error) {
  const text = error.message ?? String(error);
  notices.tell(text);
  if (view.run) return;
  $("stage").className = "failed";
  panel.show("problem", "The traces cannot be shown", element("p", text, "note problem"));
}

/** Called when the view has come to rest. */
function settled() {
  if (!view.run) return;
  writePlace();
  if (tabs.current === TIMELINE) flows.refresh();
}

/** Writes what is shown into the page's address. */
function writePlace() {
  const { run, align } = view.run.api;
  if (tabs.current === OVERVIEW) return replaceLink(linkTo(run, { align, tab: OVERVIEW }));
  if (tabs.current === TABLES)
    return replaceLink(linkTo(run, { align, tab: TABLES, table: tables.table }));
  writeLink({
    run,
    align,
    version: view.run.description.version,
    view,
    top: view.top,
    pins: view.run.layout.pinned,
    filter: $("row-filter").value,
    find: search.text,
    regex: search.regex,
    event: selection.single,
    marks: marks.list,
  });
}

/** The user goes to something else: "back" is to lead here. */
function leave() {
  if (!view.run) return;
  writePlace();
  leaveLink();
}

/** Goes to an event of a list or a search. */
function jumpTo(event) {
  leave();
  return selection.jump(event);
}

/** Shows again what an entry of the history names. */
function goBack(link) {
  const { run, align } = view.run?.api ?? {};
  if (link.run !== run || link.align !== align) return location.reload();
  const known = [OVERVIEW, TABLES].includes(link.tab);
  tabs.show(known ? link.tab : TIMELINE);
  if (link.tab === TABLES) tables.choose(link.table);
  if (known) return;
  selection.clear();
  marks.clear();
  if (!link.find) search.reset();
  view.top = 0;
  restore(link);
}

// ---- Tabs -------------------------------------------------------------------------------------

function tabShown(name) {
  resizeWindow(); // The header has more or fewer lines now.
  if (name === OVERVIEW) overview.open(view.run?.api ?? asked);
  if (name === TABLES) tables.open(view.run);
  // So that keys scroll it.
  if (name !== TIMELINE && document.activeElement === document.body) $(name).focus();
  view.settle();
}

/** Marks the workers that a report names, once the timeline has them. */
async function markOdd({ stragglers }) {
  const names = (stragglers?.stragglers ?? []).map(({ worker }) => worker ?? "");
  await opening?.catch(() => {}); // Whoever opens the run tells why it fails.
  if (!view.run || names.length === 0) return;
  rows.markOdd(names);
  strip.draw();
}

/** Shows a place in the timeline, {worker, step, find}. */
function goTo(place) {
  tabs.go(TIMELINE);
  canvas.focus();
  places.show(place).catch(fail);
}

// ---- Frames -----------------------------------------------------------------------------------

function frame(now) {
  const elapsed = Math.min(MAX_FRAME_MS, now - lastFrame);
  lastFrame = now;
  if (view.run) {
    keys.move(elapsed);
    if (view.dirty && !view.run.store.begins) draw();
  }
  requestAnimationFrame(frame);
}

function draw() {
  const { description, store, layout } = view.run;
  const bands = view.bands();
  view.dirty = false;
  strip.place(); // It asks for sizes, which what follows would have to be laid out for.
  renderer.draw(view, bands, store, view.level(), (picture) => flows.draw(picture));
  drawOverlay(renderer, view, state(), (row, track) => view.placeOf(row, track));
  labels.draw(description, layout, bands, renderer.height);
  const facts = `${time(view.end - view.begin)} · ${several(description.events, "event")}`;
  labels.note(`${facts}\n${view.sectionAbove()?.title ?? ""}`);
  tellEmpty(description, layout);
  pointer.refreshHint();
  view.load();
  $("stage").className = store.lacking > 0 ? "loading" : "";
}

/** What the user has chosen; the overlay draws it over the timeline. */
function state() {
  return {
    tool: pointer.tool,
    pointer: pointer.place,
    box: pointer.box,
    timing: pointer.timing,
    selected: selection.events,
    shades: selection.shades,
    marks: marks.list.filter((mark) => mark !== pointer.drag?.edge?.mark || !pointer.timing),
    active: marks.active,
    arrows: flows.arrows,
    links: { total: flows.total, drawn: flows.drawn, bundles: flows.bundles.length },
    aligned: view.run.description.alignedBy,
  };
}

// ---- Sizes ------------------------------------------------------------------------------------

/** Fits the canvas into the room that it has now. What was selected last stays in sight. */
function resized() {
  if (!view.run) return;
  const { anchor } = selection;
  const seen = anchor && view.placeOf(anchor.row, anchor.track) !== null;
  view.resize();
  if (seen) view.keepInSight(anchor.row, anchor.track);
  for (const splitter of splitters) splitter.tell();
}

function resizeWindow() {
  for (const splitter of splitters) splitter.restore();
  toolbox.fit();
  const others = $("strip").offsetHeight + $("colors").offsetHeight;
  view.fit($("timeline").clientHeight - others);
  resized();
  strip.draw();
  overview.draw();
}

// ---- Buttons ----------------------------------------------------------------------------------

function showTheme(theme) {
  renderer.setTheme(theme);
  strip.draw();
  overview.draw();
  view.redraw();
}

function toggleFlows() {
  flows.toggle();
}

async function toggleComparison() {
  const number = ++comparisons;
  const { run } = view;
  const isLate = () => number !== comparisons || run !== view.run;
  if (panel.shows("compare")) return panel.hide("compare");
  if (!run) return notices.tell("The run is being read.");
  try {
    const compared = await run.api.once("steps");
    if (!isLate()) panel.compare(run.description, compared);
  } catch (error) {
    if (!isLate()) notices.tell(error.message);
  }
}

async function handToPerfetto(address) {
  if (!view.run) return notices.tell("The run is being read.");
  const { api } = view.run;
  $("perfetto").disabled = true;
  notices.tell("Converting the traces for Perfetto…");
  await openInPerfetto(address, api, api.run || "trace").catch((error) =>
    notices.tell(error.message),
  );
  $("perfetto").disabled = false;
}

function showHelp() {
  $("keys").showModal();
}

// After a choice by mouse, keys are for the timeline again; with the keyboard, the list keeps them.
let chosenByMouse = false;
$("run").addEventListener("pointerdown", () => (chosenByMouse = true));
$("run").addEventListener("keydown", () => (chosenByMouse = false));
$("run").onchange = () => {
  if (chosenByMouse) canvas.focus();
  openRun($("run").value).catch((error) => {
    if (view.run) $("run").value = view.run.api.run; // It is still shown.
    fail(error);
  });
};
$("flows").onclick = toggleFlows;
$("compare").onclick = toggleComparison;
$("export").onclick = () => view.run && savePicture(view, $("labels").offsetWidth);
$("help").onclick = showHelp;
$("panel-full").onclick = () => panelSize.toggle();
addEventListener("resize", resizeWindow);
addEventListener("online", () => view.redraw()); // Asks again for what is missing.
// The canvas shows that it has the focus only to those who came to it with the keyboard.
addEventListener("keydown", () => (document.body.dataset.input = "keyboard"));
addEventListener("pointerdown", () => (document.body.dataset.input = "pointer"));
watchHistory(goBack);
watchArrivals(view, (text) => notices.tell(text));

// For tests, and for pages that embed this one: what is shown, and whether more is on its way.
globalThis.strobe = {
  get view() {
    return { begin: view.begin, end: view.end };
  },
  get state() {
    return state();
  },
  get description() {
    return view.run?.description ?? null;
  },
  get layout() {
    return view.run?.layout ?? null;
  },
  get tab() {
    return tabs.current;
  },
  get idle() {
    return view.idle;
  },
  get painted() {
    return Boolean(view.run?.store.rows.some((tiles) => tiles.size > 0)) && !view.dirty;
  },
  /** How many of the tiles in sight are not loaded. */
  get missing() {
    return view.run.store.lacking;
  },
  /** Whether events have the colours that are chosen. */
  get colored() {
    return coloring.ready;
  },
  placeOf: (row, track) => view.placeOf(row, track),
  x: (ps) => view.x(ps),
};

requestAnimationFrame(frame);
start();
