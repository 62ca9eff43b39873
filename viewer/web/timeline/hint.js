// The hint beside the pointer: what lies under it.
import { exact, several, writerOf } from "../shared/format.js";
import { countersAt, itemAt } from "./pick.js";
import { unitOf } from "./tiles.js";

const REST_MS = 60; // Rest of the pointer before the server is asked for exact times.

/** Whether an item of a tile, in steps of `unit`, is a part of the event that /api/event answered. */
function isWithin({ row, track, beginPs, durationPs }, item, unit) {
  if (row !== item.row || track !== item.track) return false;
  const middle = (item.begin + item.end) / 2;
  const slack = unit * 0.49; // Tiles round; an item's middle is at least half a unit inside of it.
  return beginPs - slack <= middle && middle <= beginPs + durationPs + slack;
}

function timesOf({ beginPs, durationPs }) {
  return `${exact(durationPs)}, starts at ${exact(beginPs)}`;
}

/** Where a row is: with several workers, also whose it is. */
function rowText({ rows, workers }, row) {
  const { name, worker } = rows[row];
  return workers.length > 1 ? `${name}, ${workers[worker].name}` : name;
}

/** A counter's value, or those that one pixel stands for. */
function counterText({ name, least, most, last }) {
  const write = writerOf(name);
  const values = least === most ? write(last) : `${write(least)} to ${write(most)}`;
  return `${name}\n${values}`;
}

export class Hint {
  /** `node`: the hint; it is placed within `stage`, beside `canvas`. */
  constructor(node, stage, canvas, view) {
    this.node = node;
    this.stage = stage;
    this.canvas = canvas;
    this.view = view;
    this.place = null;
    this.known = null; // {run, event}: what /api/event answered last.
    this.asking = null; // Gives the latest question up.
    this.asked = ""; // The item that the server was asked about last, so that it is asked once.
    this.timer = 0;
  }

  hide() {
    this.place = null;
    this.node.hidden = true;
    clearTimeout(this.timer);
  }

  /** Says what is under a place of the canvas; hides when nothing is. */
  show(place) {
    this.place = place;
    const item = itemAt(this.view, place.x, place.y);
    const counters = item ? [] : countersAt(this.view, place.x, place.y);
    this.node.hidden = !item && counters.length === 0;
    clearTimeout(this.timer);
    if (counters.length > 0) {
      this.node.textContent = counters.map(counterText).join("\n");
      this.put(place);
    }
    if (!item) return;
    const unit = unitOf(this.view.level());
    const known = this.known?.run === this.view.run && isWithin(this.known.event, item, unit);
    const busy = `${several(item.count, "event")} here, ${Math.round(item.busy * 100)} % busy`;
    const times = known ? timesOf(this.known.event) : "";
    const where = rowText(this.view.run.description, item.row);
    this.node.textContent = item.single
      ? `${item.name}\n${times}\n${where}`
      : `${busy}\nlongest: ${item.name}\n${where}`;
    const key = `${item.row}:${item.track}:${item.begin}:${item.end}`;
    if (item.single && !known && key !== this.asked)
      this.timer = setTimeout(() => this.learn(item, key), REST_MS);
    this.put(place);
  }

  /** Asks for the event's exact length: tiles round it, and cut what goes on beyond them. */
  async learn(item, key) {
    this.asked = key;
    const { row, track, begin, end } = item;
    const { run } = this.view;
    const slop = unitOf(this.view.level());
    const question = { row, track, at: (begin + end) / 2, slop, here: 1 };
    this.asking?.abort(); // What the pointer has left.
    this.asking = new AbortController();
    const event = await run.api.get("event", question, this.asking.signal).catch(() => null);
    if (!event || run !== this.view.run) return;
    this.known = { run, event };
    if (this.place) this.show(this.place);
  }

  /** Puts the hint to the right of and below the pointer, but inside the stage. */
  put({ x, y }) {
    const { node, stage } = this;
    const left = this.canvas.offsetLeft + x + 14;
    node.style.left = `${Math.min(left, stage.clientWidth - node.offsetWidth - 4)}px`;
    node.style.top = `${Math.min(y + 16, stage.clientHeight - node.offsetHeight - 4)}px`;
  }
}
