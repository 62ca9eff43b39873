// The box of the tools. It stands above the rows' names, where no event is, until it is dragged
// elsewhere by its grip; a double click on the grip brings it back. The browser keeps its place.
import { forget, keep, recall } from "../shared/browser.js";

const KEPT = "tools"; // Name in the browser's storage.
const STEP = 16; // Pixels of an arrow key.
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class Toolbox {
  constructor(box, grip) {
    this.box = box;
    grip.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      grip.setPointerCapture(event.pointerId);
      this.from = { x: event.clientX - box.offsetLeft, y: event.clientY - box.offsetTop };
    });
    grip.addEventListener("pointermove", (event) => {
      if (grip.hasPointerCapture(event.pointerId))
        this.move(event.clientX - this.from.x, event.clientY - this.from.y);
    });
    grip.addEventListener("pointerup", () => this.keep());
    grip.addEventListener("dblclick", () => this.dock());
    grip.addEventListener("keydown", (event) => {
      if (event.key === "Home") this.dock();
      else if (STEPS[event.key]) {
        const [x, y] = STEPS[event.key];
        this.move(box.offsetLeft + x * STEP, box.offsetTop + y * STEP);
        this.keep();
      } else return;
      event.preventDefault();
      event.stopPropagation(); // Arrows move the timeline otherwise.
    });
    const [x, y] = (recall(KEPT) ?? "").split(",").map(Number);
    if (Number.isFinite(x) && Number.isFinite(y)) this.move(x, y);
  }

  get floating() {
    return this.box.classList.contains("floating");
  }

  /** Places it, within the page. */
  move(x, y) {
    const { box } = this;
    const { clientWidth, clientHeight } = box.offsetParent;
    box.classList.add("floating");
    box.style.left = `${Math.max(0, Math.min(x, clientWidth - box.offsetWidth))}px`;
    box.style.top = `${Math.max(0, Math.min(y, clientHeight - box.offsetHeight))}px`;
  }

  /** Keeps it within a page that has become smaller. */
  fit() {
    if (this.floating) this.move(this.box.offsetLeft, this.box.offsetTop);
  }

  keep() {
    if (this.floating) keep(KEPT, `${this.box.offsetLeft},${this.box.offsetTop}`);
  }

  dock() {
    this.box.classList.remove("floating");
    this.box.style.left = this.box.style.top = "";
    forget(KEPT);
  }
}
