// Which rank holds up a job that stood still, and the stacks of all ranks. Texts come from the job's
// programs, which may be hostile, so they are only ever set as text.
import { ranges } from "../shared/api.js";
import { element, listOf } from "../shared/elements.js";
import { number } from "./words.js";

const UNFOLDED = 3; // The odd stacks come first.

/** `evidence`: of /api/report. */
export function stallOf({ lines, stacks, stacksMore, missing, missingMore }) {
  const [headline, ...rest] = lines;
  const unknown = missing.map(({ worker, why }) => `${worker} is missing: ${why}`);
  return [
    element("h2", headline, "headline"),
    ...rest.map((line) => element("p", line)),
    ...(stacks.length > 0 ? [element("h3", "Stacks of the main threads, the odd ones first")] : []),
    ...stacks.map((stack, i) => stackOf(stack, i < UNFOLDED)),
    ...more(stacksMore, "stacks"),
    ...(unknown.length > 0 ? [element("h3", "What is not known"), listOf(unknown)] : []),
    ...more(missingMore, "missing workers"),
  ];
}

function stackOf({ ranks, ranksMore, thread, keepGil, moved, frames, framesMore }, open) {
  const part = element("details", "", "stack");
  part.open = open;
  const all = ranks?.length ?? 0;
  const some = (of) => (of.length === all ? "all" : rangesOf(of));
  const facts = [`${all === 1 ? "rank" : "ranks"} ${rangesOf(ranks ?? [])}`];
  if (ranksMore) facts.push(`and ${number(ranksMore)} more`);
  if (thread && thread !== "main") facts.push(`thread ${thread}`);
  if (keepGil?.length > 0) facts.push(`Python's lock: ${some(keepGil)}`);
  if (moved?.length > 0) facts.push(`moved: ${some(moved)}`);
  const text = (frames ?? []).map(
    ({ file, line, name }) => `${file ?? ""}:${line} in ${name ?? ""}`,
  );
  if (framesMore) text.push(`and ${number(framesMore)} more`);
  part.append(
    element("summary", facts.join(", ")),
    element("pre", text.join("\n") || "no Python frame"),
  );
  return part;
}

/** "0-3, 8". */
const rangesOf = (numbers) => ranges(numbers).replaceAll(",", ", ");

function more(left, what) {
  return left > 0 ? [element("p", `and ${number(left)} more ${what}.`, "note")] : [];
}
