// What is wrong with a run for as long as it is shown, on both tabs: workers that are missing, and
// clocks that cannot be right. Names come from manifests and traces, so they are only set as text.
import { element } from "../shared/elements.js";
import { count, several } from "../shared/format.js";

const MAX_NAMES = 4; // In one sentence.
const REST_MS = 100; // Between looks whether the page is idle.

export class Troubles {
  /** `element`: where it is written. `changed()` is called when it has become higher or lower. */
  constructor(element, view, changed) {
    this.element = element;
    this.view = view;
    this.changed = changed;
    this.about = null; // Resolves to the server's answer about all runs.
    this.lines = new Map(); // By what they are about.
  }

  /** Another run is shown. */
  open(run) {
    this.lines.clear();
    this.put("clocks", clockLine(run.description.workers));
    // The timeline is of use without it.
    this.tellMissing(run).catch(() => {});
  }

  /** Tells which workers of the capture have no trace in the run; only a run of a logdir says so. */
  async tellMissing(run) {
    if (!(await this.about).hasList) return;
    // What is in sight goes first.
    while (!this.view.idle && run === this.view.run)
      await new Promise((resolve) => setTimeout(resolve, REST_MS));
    if (run !== this.view.run) return;
    const { manifest } = await run.api.get("manifest");
    const missing = manifest ? missingOf(manifest, run.description) : [];
    if (missing.length === 0 || run !== this.view.run) return;
    this.put("missing", missingLine(missing, manifest.workers.length));
    run.layout.addMissing(missing);
    this.view.arrange();
  }

  put(about, line) {
    if (!line && this.element.hidden) return;
    if (line) this.lines.set(about, line);
    else this.lines.delete(about);
    const before = this.element.offsetHeight;
    this.element.replaceChildren(
      ...[...this.lines.values()].map(({ text, title }) => {
        const node = element("p", text);
        node.title = title;
        return node;
      }),
    );
    this.element.hidden = this.lines.size === 0;
    if (this.element.offsetHeight !== before) this.changed();
  }
}

/**
 * The workers of a manifest, as /api/manifest answers, whose traces are not among those of the run:
 * [{name, outcome, why}]. Files have other names than workers, so they are counted: first those
 * are missing whose outcome says that they have no trace.
 */
function missingOf(manifest, description) {
  const here = description.workers.length + description.leftOut.length;
  const lacking = Math.max(0, manifest.workers.length - here);
  const without = manifest.workers.filter(({ hasTrace }) => !hasTrace).slice(0, lacking);
  const missing = without.map(({ name, outcome, message, remedy }) => ({
    name,
    outcome: outcome || "no outcome",
    why: [message, remedy].filter(Boolean).join(" "),
  }));
  for (let i = missing.length; i < lacking; ++i)
    missing.push({ name: "", outcome: "its trace is not here", why: "" });
  return missing;
}

/** All that the server tells of the run and its workers, in lines. */
export function problemsOf(warnings, workers) {
  return [
    ...warnings,
    ...workers.flatMap(({ name, problems }) => problems.map((text) => `${name}: ${text}`)),
  ];
}

function missingLine(missing, all) {
  if (missing.length === 0) return null;
  const named = missing.filter(({ name }) => name);
  const listed = named.slice(0, MAX_NAMES).map(({ name, outcome }) => `${name} ${outcome}`);
  const left = missing.length - listed.length;
  if (left > 0 && listed.length > 0) listed.push(`${count(left)} more`);
  const are = missing.length === 1 ? "is" : "are";
  const which = listed.length > 0 ? listed.join(", ") : "their traces are not here";
  return {
    text: `${count(missing.length)} of ${count(all)} workers ${are} missing: ${which}`,
    title: named
      .slice(0, MAX_NAMES)
      .map(({ name, why }) => `${name}: ${why}`)
      .join("\n"),
  };
}

function clockLine(workers) {
  const wrong = workers.filter(({ clockProblems }) => clockProblems.length > 0);
  if (wrong.length === 0) return null;
  const sentences = wrong.map(({ name, clockProblems }) => `${name} ${clockProblems.join("; ")}`);
  const left = wrong.length - 1;
  const more = left > 0 ? ` (and ${several(left, "more worker")})` : "";
  return { text: `Clocks: ${sentences[0]}${more}`, title: sentences.slice(0, 20).join("\n") };
}
