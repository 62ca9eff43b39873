// The panel of the overview: fetches what it shows when it is opened, and the modules that draw it.
import { element } from "../shared/elements.js";
import { count } from "../shared/format.js";
import { loadStyle } from "../shared/browser.js";
import { ALWAYS, askReport } from "./report.js";

export class OverviewTab {
  /** `actions`: go(place), linkTo(place), say(text), found(report). */
  constructor(section, actions) {
    this.section = section;
    this.page = element("div", "", "report"); // It can have several columns; what scrolls cannot.
    section.append(this.page);
    this.actions = actions;
    this.api = null; // Asks for the run whose report is shown.
    this.shown = null; // The Overview, once there is one.
  }

  /** Shows a run's report. */
  async open(api) {
    if (this.api?.run === api.run) return this.draw();
    this.api = api;
    this.shown = null;
    this.tell("Reading the report…");
    try {
      const [{ Overview }, answer] = await Promise.all([
        import("./overview.js"),
        askReport(api, ALWAYS, (progress) => this.progress(api, progress)),
        loadStyle("overview.css"),
      ]);
      if (api !== this.api || !answer) return;
      this.shown = new Overview(this.page, answer, this.actions);
      if (answer.report) this.actions.found(answer.report);
      this.draw();
    } catch (error) {
      if (api !== this.api) return;
      this.api = null; // So that it is tried again.
      this.tell(`The report cannot be shown. ${error.message}`);
    }
  }

  /** False if the answer is not needed any more. */
  progress(api, { state, done, total }) {
    if (api !== this.api) return false;
    if (state === "loading") this.tell("The traces are being read…");
    else this.tell(`Computing the report: ${count(done)} of ${count(total)} workers…`);
    return true;
  }

  tell(text) {
    this.page.replaceChildren(element("p", text, "note"));
  }

  /** Draws anew: for another theme or size. */
  draw() {
    if (!this.section.hidden) this.shown?.draw();
  }
}
