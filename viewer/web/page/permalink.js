// Keeps the view in the URL, so that a copied link shows the same.

/**
 * The view that the page's URL names:
 * {run, align, tab, table, worker, step, begin, end, top, version, pins, filter, find, regex, event,
 * marks}. What it does not name is empty; step, begin and end are undefined then. Numbers of pinned rows and of
 * the event are those of one `version` of the run.
 */
export function readLink() {
  const hash = new URLSearchParams(location.hash.slice(1));
  const numbers = (name) =>
    (hash.get(name) ?? "")
      .split(",")
      .filter((text) => /^-?\d+$/.test(text))
      .map(Number);
  const [begin, end] = numbers("t");
  return {
    run: hash.get("run") ?? "",
    align: hash.get("align") ?? "",
    tab: hash.get("tab") ?? "",
    table: hash.get("table") ?? "",
    worker: hash.get("worker") ?? "",
    step: numbers("step")[0],
    begin,
    end,
    top: numbers("top")[0] ?? 0,
    version: hash.get("v") ?? "",
    pins: numbers("pins"),
    filter: hash.get("rows") ?? "",
    find: hash.get("find") ?? "",
    regex: hash.get("regex") === "1",
    event: numbers("event"),
    marks: numbers("marks"),
  };
}

/** Whether the link leaves open which part of the run to show. */
export function namesNoPlace({ tab, worker, step, begin, pins, filter, find, event, marks }) {
  const any = tab || worker || filter || find || pins.length || event.length || marks.length;
  return !any && step === undefined && begin === undefined;
}

/** A link to a place in the timeline, {align, worker, step, find}, or to another tab, {tab, table}. */
export function linkTo(run, place) {
  const hash = new URLSearchParams();
  if (run) hash.set("run", run);
  for (const name of ["align", "tab", "table", "worker", "step", "find"])
    if (place[name] !== undefined && place[name] !== "") hash.set(name, place[name]);
  return `#${hash}`;
}

export function writeLink({
  run,
  align,
  version,
  view,
  top,
  pins,
  filter,
  find,
  regex,
  event,
  marks,
}) {
  const hash = new URLSearchParams();
  if (run) hash.set("run", run);
  if (align) hash.set("align", align);
  hash.set("t", `${Math.round(view.begin)},${Math.round(view.end)}`);
  if (top > 0) hash.set("top", Math.round(top));
  if (pins.length || event) hash.set("v", version);
  if (pins.length) hash.set("pins", pins.join(","));
  if (filter) hash.set("rows", filter);
  if (find) hash.set("find", find);
  if (find && regex) hash.set("regex", "1");
  if (event) hash.set("event", [event.row, event.track, event.ordinal].join(","));
  if (marks.length)
    hash.set(
      "marks",
      marks.flatMap(({ begin, end }) => [Math.round(begin), Math.round(end)]).join(","),
    );
  replaceLink(`#${hash}`);
}

const OURS = { strobe: true }; // Marks the entries of the browser's history that this page has made.

/** The entry in the browser's history names another place: "back" is not to undo each move. */
export function replaceLink(hash) {
  history.replaceState(OURS, "", hash);
}

/** What is shown from now on has an entry of its own, so that "back" leads to what was shown. */
export function leaveLink() {
  history.pushState(OURS, "", location.hash);
}

/**
 * `show(link)` shows what an entry of this page names, as readLink() gives it, when the user goes
 * back or forward. For an address that was typed, the page is loaded anew.
 */
export function watchHistory(show) {
  let ours = false;
  addEventListener("popstate", ({ state }) => {
    ours = Boolean(state?.strobe);
    if (ours) show(readLink());
  });
  addEventListener("hashchange", () => ours || location.reload());
}
