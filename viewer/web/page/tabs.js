// The tabs of the page: the overview of a run, its timeline, and its tables. The timeline stays in its
// place behind the others, so that it is drawn already when it is shown.

export const OVERVIEW = "overview";
export const TIMELINE = "timeline";
export const TABLES = "tables";

export class Tabs {
  /**
   * `list`: holds the tabs, each with its panel's id in aria-controls. `changed(name)`; `leaving()`
   * is called before the user goes to another one.
   */
  constructor(list, changed, leaving) {
    this.tabs = [...list.querySelectorAll("[role=tab]")];
    this.changed = changed;
    this.leaving = leaving;
    for (const tab of this.tabs) tab.onclick = () => this.go(nameOf(tab));
    list.addEventListener("keydown", (event) => this.key(event));
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
    for (const tab of this.tabs) {
      const chosen = nameOf(tab) === name;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    for (const each of [OVERVIEW, TABLES]) document.getElementById(each).hidden = name !== each;
    this.changed(name);
  }

  /** Marks a tab that is not shown as worth a look, and says why. */
  mark(name, why) {
    if (name === this.current) return;
    const tab = this.tabs.find((each) => nameOf(each) === name);
    tab.classList.add("ready");
    tab.dataset.title ??= tab.title;
    tab.title = `${why} (o)`;
  }

  unmark() {
    for (const tab of this.tabs) {
      tab.classList.remove("ready");
      tab.title = tab.dataset.title ?? tab.title;
    }
  }

  toggle() {
    this.go(this.current === TIMELINE ? OVERVIEW : TIMELINE);
  }

  key(event) {
    const at = this.tabs.indexOf(document.activeElement);
    const last = this.tabs.length - 1;
    const next = {
      ArrowLeft: at > 0 ? at - 1 : last,
      ArrowRight: at < last ? at + 1 : 0,
      Home: 0,
      End: last,
    }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    event.stopPropagation(); // Arrows move the timeline otherwise.
    this.tabs[next].focus();
    this.go(nameOf(this.tabs[next]));
  }
}

function nameOf(tab) {
  return tab.getAttribute("aria-controls");
}
