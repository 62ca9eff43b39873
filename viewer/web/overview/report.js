// The report of a run: asks for it, and tells whether the page begins with it.

const LANDING_MS = 2000;

export const NEVER = ""; // Only a report that is stored is given.
export const CHEAP = "cheap"; // It is computed if that takes a moment only.
export const ALWAYS = "always";

/**
 * The server's answer for a run, {state, problem, why, compares, report}, or with `evidence`
 * in place of a report for a job that stood still. `make`: whether it is
 * computed if none is stored. `told({state, done, total})` is called while it is being made, and
 * ends the questions by returning false.
 */
export async function askReport(api, make, told = () => true) {
  for (;;) {
    const answer = await api.get("report", { make }); // The server waits a moment for it.
    api.run = answer.run; // Without a name, the server has chosen one.
    if (answer.state !== "loading" && answer.state !== "computing") return answer;
    if (!told(answer)) return null;
  }
}

/**
 * Begins with the overview of a run that has one, unless the user has begun to work with its
 * timeline or the report takes longer than a moment. Then it is only said that there is one.
 */
export class Landing {
  /**
   * `actions`: land() opens the overview; ready(headline) says that it can be opened; found(report)
   * gets the report in any case.
   */
  constructor(actions) {
    this.actions = actions;
    this.open = true;
    this.landed = false;
    this.until = performance.now() + LANDING_MS;
    const close = () => (this.open = false);
    for (const type of ["keydown", "pointerdown", "wheel"])
      addEventListener(type, close, { once: true, passive: true });
  }

  get late() {
    return !this.open || performance.now() > this.until;
  }

  /** `isCurrent()`: whether the run is still the one that is shown. */
  async offer(api, make, isCurrent) {
    if (this.landed) return;
    const answer = await askReport(api, make, isCurrent).catch(() => null);
    const { report, evidence, compares } = answer ?? {};
    if ((!report && !evidence) || this.landed || !isCurrent()) return;
    this.landed = true;
    if (report) this.actions.found(report);
    // A run with evidence has no timeline to begin with.
    if (evidence || (compares && !this.late)) this.actions.land();
    else if (compares || report.stragglers?.advice?.length > 0)
      this.actions.ready(report.headline ?? "There is a summary.");
  }
}
