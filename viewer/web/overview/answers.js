// What the report advises, and in which groups of ranks the time is lost. Texts come from the report,
// which may be hostile, so they are only ever set as text.
import { element, table } from "../shared/elements.js";
import { nanoseconds, number, percent, several } from "./words.js";

// Only these addresses become links; a stored report may hold any.
const DOCUMENTATION = /^https:\/\/docs\.(pytorch|python)\.org\//;

/** What to do next, the costliest first. `link(text, place)` makes a link to a place. */
export function adviceOf(stragglers, link) {
  const advice = stragglers?.advice ?? [];
  if (advice.length === 0) return [];
  const list = element("ul", "", "advice");
  for (const { share, what, next, link: address, worker, step } of advice) {
    const place = placeOf(worker, step);
    const entry = document.createElement("li");
    entry.append(link(`${percent(share)} ${what ?? ""}`, place));
    if (typeof step === "number") entry.append(element("span", ` most in step ${step}`, "soft"));
    entry.append(element("p", next ?? ""), more(address, what));
    list.append(entry);
  }
  return [element("h3", "What to do"), list];
}

/** A place in the timeline: a step of a worker, as far as they are known. */
export function placeOf(worker, step) {
  const place = worker ? { worker } : { tab: "timeline" };
  return typeof step === "number" ? { ...place, step } : place;
}

function more(address, what) {
  if (!DOCUMENTATION.test(address ?? "")) return "";
  const link = element("a", "How to do it");
  link.href = address;
  link.rel = "noreferrer";
  link.target = "_blank";
  link.title = `Documentation about time ${what ?? ""}`;
  return link;
}

/** Tables of a server's iterations and of the time between them. */
export function engineTables(engine) {
  const sizes = engine?.sizes ?? [];
  if (sizes.length === 0) return [];
  const gaps = engine.gaps ?? [];
  const batches = sizes.map(({ phase, unit, least, most, iterations, ...times }) => [
    phase ?? "",
    least === most ? several(most, unit ?? "") : `${number(least)} to ${several(most, unit ?? "")}`,
    number(iterations),
    nanoseconds(times.p50Ns),
    nanoseconds(times.p99Ns),
    nanoseconds(times.maxNs),
    number(times.tokens),
    percent(times.share),
  ]);
  const heads = ["Batch", "Size", "Iterations", "Median", "p99", "Longest", "Tokens", "Share"];
  const tables = [table("Iterations by batch", heads, batches, [2, 3, 4, 5, 6, 7])];
  if (gaps.length === 0) return tables;
  const between = gaps.map(({ reason, gaps: times, totalNs, maxNs, share }) => [
    reason ?? "",
    number(times),
    nanoseconds(totalNs),
    nanoseconds(maxNs),
    percent(share),
  ]);
  const columns = ["Between iterations", "Times", "Total", "Longest", "Share"];
  return [...tables, table("Time between iterations", columns, between, [1, 2, 3, 4])];
}

/** Tables of the kinds of parallelism and of the pipeline's stages. */
export function parallelTables(stragglers) {
  const groups = stragglers?.groups ?? [];
  const stages = stragglers?.stages ?? [];
  const tables = [];
  if (groups.length > 1 || groups.some(({ kind, named }) => named && kind !== "all ranks")) {
    const rows = groups.map((group) => [
      `${group.kind ?? ""}${group.named ? "" : " (by its calls)"}`,
      number(group.communicators),
      number(group.calls),
      nanoseconds(group.inCallsNs),
      nanoseconds(group.waitedNs),
    ]);
    const heads = [
      "Groups of ranks",
      "Communicators",
      "Calls",
      "In calls, a step",
      "Waited, a step",
    ];
    tables.push(table("Groups of ranks", heads, rows, [1, 2, 3, 4]));
  }
  if (stages.length > 1) {
    const rows = stages.map(({ stage, workers, ownNs }) => [
      `Stage ${stage}`,
      several(workers, "worker"),
      nanoseconds(ownNs),
    ]);
    const heads = ["Pipeline", "Workers", "Own time, a step"];
    tables.push(table("Stages of the pipeline", heads, rows, [2]));
  }
  return tables;
}
