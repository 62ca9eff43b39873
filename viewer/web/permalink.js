// The view as a URL, so that it can be sent to somebody.

/** {run, begin, end, top, pins, filter, find, regex, theme, tool, event} from location.hash. */
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
    begin,
    end,
    top: numbers("top")[0] ?? 0,
    pins: numbers("pins"),
    filter: hash.get("rows") ?? "",
    find: hash.get("find") ?? "",
    regex: hash.get("regex") === "1",
    event: numbers("event"),
    marks: numbers("marks"),
  };
}

export function writeLink({ run, view, top, pins, filter, find, regex, event, marks }) {
  const hash = new URLSearchParams();
  if (run) hash.set("run", run);
  hash.set("t", `${Math.round(view.begin)},${Math.round(view.end)}`);
  if (top > 0) hash.set("top", Math.round(top));
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
  // A place in the history for each frame would be of no use.
  history.replaceState(null, "", `#${hash}`);
}
