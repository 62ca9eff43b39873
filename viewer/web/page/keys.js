// The keyboard. Keys that move the view act as long as they are held; the others once.

import { TIMELINE } from "./tabs.js";

const TOOLS = ["select", "pan", "zoom", "timing"];
// Keys 1 to 4 and, for users of Perfetto and XProf, the same with Shift on a US keyboard.
const TOOL_KEYS = ["1234", "!@#$"];
// Keys that act whatever the page shows; the others are the timeline's.
const EVERYWHERE = ["o", "t", "?"];
// Keys that a list with the focus uses itself.
const LIST_KEYS = new Set(
  "ArrowUp ArrowDown Enter Tab Home End PageUp PageDown".split(" ").concat(" "),
);

export class Keys {
  /** `actions`: by key, what it does; the keys are those of the page's help. */
  constructor(canvas, view, pointer, selection, marks, panel, actions) {
    this.canvas = canvas;
    this.view = view;
    this.pointer = pointer;
    this.selection = selection;
    this.marks = marks;
    this.panel = panel;
    this.actions = actions;
    this.held = new Set();
    // What a held key does in `ms` milliseconds, with the pointer at `x`.
    this.motions = {
      w: (ms, x) => view.zoom(0.997 ** ms, x),
      s: (ms, x) => view.zoom(1.003 ** ms, x),
      a: (ms) => view.pan(-ms * 0.9),
      d: (ms) => view.pan(ms * 0.9),
      ArrowUp: (ms) => view.scroll(-ms * 0.6),
      ArrowDown: (ms) => view.scroll(ms * 0.6),
    };
    addEventListener("keydown", (event) => this.down(event));
    addEventListener("keyup", (event) => this.held.delete(nameOf(event)));
    addEventListener("blur", () => this.held.clear()); // Their keyup goes to another window.
  }

  /** Moves the view by the keys that are held. Called for each frame. */
  move(ms) {
    if (this.held.size === 0) return;
    const x = this.pointer.place?.x ?? this.view.renderer.width / 2;
    for (const [key, motion] of Object.entries(this.motions)) if (this.held.has(key)) motion(ms, x);
  }

  down(event) {
    if (!this.view.run || event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.getElementById("keys").open) return;
    if (document.body.dataset.tab !== TIMELINE && !EVERYWHERE.includes(nameOf(event))) return;
    const typing = event.target.matches("input, textarea");
    const choosing = event.target.matches("select");
    if (event.key === "Escape") return typing || choosing ? this.canvas.focus() : this.escape();
    if (typing || (choosing && LIST_KEYS.has(event.key)) || isForTarget(event, this.canvas)) return;
    // A list would take letters and digits for the beginning of an entry's name.
    if (choosing) event.preventDefault();
    const key = nameOf(event);
    const tool = toolOf(event.key);
    if (this.motions[key]) this.held.add(key);
    else if (tool) this.pointer.setTool(tool);
    else if (Object.hasOwn(this.actions, key)) this.actions[key]();
    else return;
    event.preventDefault();
  }

  /** Clears the selection; when there is none, closes the pane; when there is none, the marks. */
  escape() {
    if (this.pointer.drag) return this.pointer.cancel();
    if (!this.selection.empty) return this.selection.clear();
    if (this.panel.isOpen) return this.panel.hide();
    this.selection.clearShades();
    this.marks.clear();
  }
}

/** Letters are the same with and without Shift. */
function nameOf({ key }) {
  return key.length === 1 ? key.toLowerCase() : key;
}

function toolOf(key) {
  for (const keys of TOOL_KEYS)
    if (key.length === 1 && keys.includes(key)) return TOOLS[keys.indexOf(key)];
  return null;
}

/** True for keys that a focused button, or text that scrolls, uses itself. */
function isForTarget({ key, target }, canvas) {
  if (target === canvas || target === document.body) return false;
  const scrolls = target.matches("#panel-list, #panel-details");
  return key === "Enter" || key === " " || (scrolls && key.startsWith("Arrow"));
}
