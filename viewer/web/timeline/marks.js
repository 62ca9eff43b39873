// Times that the user has marked: intervals with edges that can be dragged.
import { exact } from "../shared/format.js";

const REACH = 5; // Pixels from which an edge can be taken.

export class Marks {
  constructor(view, notices) {
    this.view = view;
    this.notices = notices;
    this.list = []; // {begin, end}
    this.active = null; // The one that was made or moved last.
  }

  /** Marks a time, or takes its mark away; without a time, the mark that was touched last. */
  toggle(time) {
    if (!time && !this.active) return this.notices.tell("Nothing is selected.");
    const { begin, end } = time ?? this.active;
    const same = this.list.find((mark) => mark.begin === begin && mark.end === end);
    if (same) this.remove(same);
    else this.add({ begin, end });
    this.notices.tell(same ? "The mark is gone." : `Marked ${exact(end - begin)}.`);
  }

  add(mark) {
    this.list.push(mark);
    this.active = mark;
    this.view.settle();
  }

  remove(mark) {
    this.list = this.list.filter((other) => other !== mark);
    if (this.active === mark) this.active = this.list.at(-1) ?? null;
    this.view.settle();
  }

  clear() {
    this.list = [];
    this.active = null;
    this.view.settle();
  }

  /** {mark, still}: the mark that has an edge at `x`, and its other edge, which stays; or null. */
  edgeAt(x) {
    let found = null;
    let near = REACH;
    // The last one first, because it is drawn above the others.
    for (const mark of [...this.list].reverse()) {
      for (const [edge, still] of [
        [mark.begin, mark.end],
        [mark.end, mark.begin],
      ]) {
        const away = Math.abs(this.view.x(edge) - x);
        if (away < near) [found, near] = [{ mark, still }, away];
      }
    }
    return found;
  }

  /** The mark over which `x` lies, or null. */
  at(x) {
    const when = this.view.timeAt(x);
    return this.list.findLast(({ begin, end }) => begin <= when && when <= end) ?? null;
  }
}
