// A list of tabs, of which one is chosen by a click or with the arrow keys. A tab's name is what
// follows the first "-" in its id.

export class TabList {
  /** `list`: holds the tabs. chosen(name) is called when the user chooses one. */
  constructor(list, chosen) {
    this.tabs = [...list.querySelectorAll("[role=tab]")];
    this.chosen = chosen;
    for (const tab of this.tabs) tab.onclick = () => chosen(nameOf(tab));
    list.addEventListener("keydown", (event) => this.key(event));
  }

  named(name) {
    return this.tabs.find((tab) => nameOf(tab) === name);
  }

  /** Shows which tab is chosen. The Tab key skips the others. */
  mark(name) {
    for (const tab of this.tabs) {
      const chosen = nameOf(tab) === name;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
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
    this.chosen(nameOf(this.tabs[next]));
  }
}

function nameOf({ id }) {
  return id.slice(id.indexOf("-") + 1);
}
