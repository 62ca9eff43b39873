// The tabs of the page: the overview of a run, its timeline, and its tables. The timeline stays in its
// place behind the others, so that it is drawn already when it is shown.
import { TabList } from "../shared/tab_list.js";

export const OVERVIEW = "overview";
export const TIMELINE = "timeline";
export const TABLES = "tables";

export class Tabs {
  /**
   * `list`: holds the tabs, each named after its panel. `changed(name)`; `leaving()` is called before
   * the user goes to another one.
   */
  constructor(list, changed, leaving) {
    this.list = new TabList(list, (name) => this.go(name));
    this.changed = changed;
    this.leaving = leaving;
  }

  get current() {
    return document.body.dataset.tab;
  }

  /** Shows a tab because the user asks for it. */
  go(name) {
    if (name === this.current) return;
    this.leaving();
    this.show(name);
  }

  show(name) {
    if (name === this.current) return;
    if (name === OVERVIEW) this.unmark();
    document.body.dataset.tab = name;
    this.list.mark(name);
    for (const each of [OVERVIEW, TABLES]) document.getElementById(each).hidden = name !== each;
    this.changed(name);
  }

  /** Marks a tab that is not shown as worth a look, and says why. */
  mark(name, why) {
    if (name === this.current) return;
    const tab = this.list.named(name);
    tab.classList.add("ready");
    tab.dataset.title ??= tab.title;
    tab.title = `${why} (o)`;
  }

  unmark() {
    for (const tab of this.list.tabs) {
      tab.classList.remove("ready");
      tab.title = tab.dataset.title ?? tab.title;
    }
  }

  toggle() {
    this.go(this.current === TIMELINE ? OVERVIEW : TIMELINE);
  }
}
