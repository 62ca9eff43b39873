// How the list of runs writes ages, sizes and links.
import { amount, time } from "../shared/format.js";

const UNITS = [
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

/** "5 min" since a Unix time in ms; empty for 0, which means that it is not known. */
export function age(ms, now = Date.now()) {
  if (!ms) return "";
  const seconds = Math.max(0, Math.round((now - ms) / 1000));
  const [unit, name] = UNITS.find(([u]) => seconds >= u) ?? UNITS[3];
  return `${Math.floor(seconds / unit)} ${name}`;
}

/** "2026-11-24 07:48:59 UTC" of a Unix time in ms. */
export function moment(ms) {
  return `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

export function size(bytes) {
  return amount(bytes, "B");
}

/** "300 µs ± 20 µs"; empty if it is not known. */
export function skew(ns, errorNs) {
  if (ns === undefined || ns === null) return "";
  const error = errorNs >= 0 ? ` ± ${time(errorNs * 1000)}` : "";
  return `${time(ns * 1000)}${error}`;
}

/** The page that shows the run; `tab`: "overview" or "timeline", or what the run begins with. */
export function pageOf(name, tab = "") {
  return `./#${new URLSearchParams(tab ? { run: name, tab } : { run: name })}`;
}
