// A line that is dragged to give the parts on its two sides more or less room. With the keyboard,
// arrows move it and Home and End go to its limits. The browser keeps where it was left.
import { forget, keep, recall } from "../shared/browser.js";

const STEP = 24; // Pixels of an arrow key.

export class Splitter {
  /**
   * `element`: the line, a separator. `name`: under which the browser keeps the size. `sizeAt(event)`:
   * the size, in pixels, that a pointer asks for; `get()` and `set(size)`: that of the part;
   * `limits()`: [least, most]; `grow` and `shrink`: the keys that make it larger and smaller.
   */
  constructor(element, name, { sizeAt, get, set, limits, grow, shrink }) {
    this.element = element;
    this.name = name;
    this.get = get;
    this.set = set;
    this.limits = limits;
    this.before = 0; // The size before it was made as large as it may be; 0 = it was not.
    element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      element.setPointerCapture(event.pointerId);
      // How far from the line the pointer took it, so that the line does not leap.
      this.away = sizeAt(event) - get();
    });
    element.addEventListener("pointermove", (event) => {
      if (element.hasPointerCapture(event.pointerId)) this.resize(sizeAt(event) - this.away);
    });
    element.addEventListener("pointerup", () => this.keep());
    element.addEventListener("dblclick", () => this.forget());
    element.addEventListener("keydown", (event) => {
      const [least, most] = limits();
      const sizes = { [grow]: get() + STEP, [shrink]: get() - STEP, Home: least, End: most };
      if (!Object.hasOwn(sizes, event.key)) return;
      event.preventDefault();
      event.stopPropagation(); // Arrows move the timeline otherwise.
      this.resize(sizes[event.key]);
      this.keep();
    });
  }

  /** Takes the size from when the page was used last. */
  restore() {
    const size = Number(recall(this.name));
    if (size > 0) this.resize(size);
  }

  resize(size) {
    const [least, most] = this.limits();
    this.set(Math.round(Math.max(least, Math.min(most, size))));
    this.tell();
  }

  /** Tells its place to those who cannot see it. */
  tell() {
    const [least, most] = this.limits();
    this.element.setAttribute("aria-valuemin", Math.round(least));
    this.element.setAttribute("aria-valuemax", Math.round(Math.max(least, most)));
    this.element.setAttribute("aria-valuenow", Math.round(this.get()));
  }

  keep() {
    keep(this.name, String(Math.round(this.get())));
  }

  /** As large as it may be; then, as it was before. */
  toggle() {
    const size = this.get();
    const [, most] = this.limits();
    this.resize(this.before || most);
    this.before = this.before ? 0 : size;
    this.keep();
  }

  /** Goes back to the size that the page has by itself. */
  forget() {
    forget(this.name);
    this.set(null);
    this.tell();
  }
}

// Pixels that resizing leaves to each part of the page.
const MIN_LABELS = 130;
const MIN_TIMELINE = 200;
const MIN_STAGE = 120;
const MIN_PANEL = 90;

const $ = (id) => document.getElementById(id);

/** Between the rows' names and the timeline. `resized()` and then `changed()` are called. */
export function labelSplitter(resized, changed) {
  const root = document.documentElement.style;
  return new Splitter($("labels-size"), "labels", {
    sizeAt: (event) => event.clientX - $("labels").getBoundingClientRect().left,
    get: () => $("labels").offsetWidth,
    set: (size) => {
      if (size === null) root.removeProperty("--label");
      else root.setProperty("--label", `${size}px`);
      resized();
      changed();
    },
    limits: () => [MIN_LABELS, $("stage").clientWidth - MIN_TIMELINE],
    grow: "ArrowRight",
    shrink: "ArrowLeft",
  });
}

/** The splitter between the timeline and the details pane. */
export function panelSplitter(resized) {
  const element = $("panel");
  return new Splitter($("panel-size"), "panel", {
    sizeAt: (event) => element.getBoundingClientRect().bottom - event.clientY,
    get: () => element.offsetHeight,
    set: (size) => {
      element.style.height = size === null ? "" : `${size}px`;
      resized();
    },
    limits: () => {
      const others = $("strip").offsetHeight + $("colors").offsetHeight;
      return [MIN_PANEL, $("timeline").clientHeight - others - MIN_STAGE];
    },
    grow: "ArrowUp",
    shrink: "ArrowDown",
  });
}
