// How the overview writes what a report tells. What a report does not tell is null.
import { count, several as severalOf, time } from "../shared/format.js";

const NOT_KNOWN = "not known";

export function nanoseconds(ns) {
  if (typeof ns !== "number") return NOT_KNOWN;
  return ns === 0 ? "0" : time(ns * 1000, 2);
}

/** "12.4 ms ± 300 µs". */
export function within(ns, errorNs) {
  const known = typeof ns === "number" && typeof errorNs === "number";
  return known ? `${nanoseconds(ns)} ± ${time(errorNs * 1000, 1)}` : nanoseconds(ns);
}

export function percent(share) {
  if (typeof share !== "number") return NOT_KNOWN;
  return `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`;
}

export function number(value) {
  return typeof value === "number" ? count(value) : NOT_KNOWN;
}

/** "20 steps", "1 step"; "steps" where it is not known how many. */
export function several(value, word) {
  return typeof value === "number" ? severalOf(value, word) : `${word}s`;
}

/** What is known of a worker that takes longer than the others. */
export function verdictOf({ verdict, clockErrorNs, evidence }) {
  const sentences = {
    HoldsUp:
      evidence === "durations"
        ? "others wait for it, by the durations of calls"
        : "others wait for it",
    NobodyWaits: "nobody waits for it",
    WithinClockErrors: `not decidable who waits: clocks are known only within ${nanoseconds(clockErrorNs)}`,
    ClockNotMeasured: "not decidable who waits: clocks are not measured",
    NoCalls: "not decidable who waits: the traces tell no collective that joins the workers",
  };
  return Object.hasOwn(sentences, verdict ?? "") ? sentences[verdict] : NOT_KNOWN;
}

export function causesOf({ causes }) {
  const told = (causes ?? []).filter(({ share }) => share >= 0.005);
  return told.map(({ cause, share }) => `${cause} ${percent(share)}`).join(", ") || NOT_KNOWN;
}

/** In how many steps a worker is late. */
export function howOften({ lateSteps, steps, persistent }) {
  return persistent ? "most steps" : `${number(lateSteps)} of ${several(steps, "step")}`;
}

/** By how much steps would be shorter without a straggler. */
export function heldUpBy(heldUp) {
  if (!heldUp) return "";
  return `${within(heldUp.ns, heldUp.errorNs)} a step (${percent(heldUp.share)})`;
}

/** The loss of all stragglers together, {value, note}. */
export function lossOf({ figures, stragglers }) {
  const seconds = figures?.stragglerSeconds;
  if (typeof seconds !== "number")
    return { value: "unknown", note: "whether steps would be shorter without a straggler" };
  if (seconds > 0) {
    const heldUp = stragglers?.heldUp;
    return {
      value: within(seconds * 1e9, heldUp?.errorNs),
      note: `${percent(heldUp?.share)} of a step, because of stragglers`,
    };
  }
  return {
    value: "none",
    note: `no worker takes more than ${nanoseconds(stragglers?.smallestToldNs)} longer`,
  };
}

/** One wait of the map. */
export function waitText(ns, errorNs, undecided) {
  if (ns === null) return "did not take part";
  const error =
    errorNs === null ? `${nanoseconds(ns)} (clocks are not measured)` : within(ns, errorNs);
  return `waited ${error}${undecided ? ": not decidable" : ""}`;
}
