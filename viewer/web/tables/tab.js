// The panel of the tables: fetches the module that shows them when it is first opened.
import { element } from "../shared/elements.js";
import { loadStyle } from "../shared/browser.js";

export class TablesTab {
  /**
   * `actions`: go(place), say(text), changed(): another table is shown, hasXprof(): whether the page
   * links to XProf.
   */
  constructor(section, actions) {
    this.section = section;
    this.actions = actions;
    this.run = null; // The page's run whose tables are shown.
    this.shown = null; // The Tables, once there are some.
    this.first = ""; // The name of the table to begin with.
  }

  /** The name of the table that is shown, for links. */
  get table() {
    return this.shown?.current ?? this.first;
  }

  /** Shows the tables of a run as the page has it, {api, description}; null while it is read. */
  async open(run) {
    if (!run) return this.tell("The traces are being read…");
    if (this.run === run) return;
    this.first = this.table;
    this.run = run;
    this.shown = null;
    this.tell("Loading the tables…");
    try {
      const [{ Tables }] = await Promise.all([import("./tables.js"), loadStyle("tables.css")]);
      if (run !== this.run) return;
      this.shown = new Tables(this.section, run, this.first, this.actions);
    } catch (error) {
      if (run !== this.run) return;
      this.run = null; // So that it is tried again.
      this.tell(`The tables cannot be shown. ${error.message}`);
    }
  }

  /** Shows the table of this name. */
  choose(name) {
    if (!name || name === this.table) return;
    this.first = name;
    this.shown?.show(name);
  }

  tell(text) {
    this.section.replaceChildren(element("p", text, "note"));
  }
}
