// Draws over the timeline: selection, marks, arrows, and the box or interval that is being dragged.
import { tick, time } from "../shared/format.js";
import { GAP } from "./layout.js";
import { AXIS, TICKS } from "./renderer.js";

const FONT = "12px system-ui, sans-serif";

/**
 * `state`: what is selected and dragged, as app.js collects it. place(row, track): the track's top
 * on the canvas, or null.
 */
export function drawOverlay(renderer, view, state, place) {
  const { context, theme, width, height } = renderer;
  const { track } = view.run.layout;
  const x = (ps) => renderer.x(ps, view);
  context.font = FONT;
  context.textBaseline = "middle";

  for (const { begin, end } of state.shades) {
    context.fillStyle = theme.shade;
    context.fillRect(x(begin), AXIS, Math.max(1, x(end) - x(begin)), height - AXIS);
  }

  context.lineWidth = 1;
  context.strokeStyle = context.fillStyle = theme.arrow;
  for (const [from, to] of state.arrows) drawArrow(context, x, place, track, from, to);

  context.lineWidth = 2;
  context.strokeStyle = theme.text;
  for (const event of state.selected) {
    const at = place(event.row, event.track);
    if (at === null) continue;
    const a = Math.max(-4, x(event.beginPs));
    const b = Math.min(width + 4, x(event.beginPs + event.durationPs));
    if (b < -4 || a > width + 4) continue;
    context.strokeRect(a, at, Math.max(2, b - a), track - 1);
  }
  context.lineWidth = 1;

  if (state.aligned) {
    context.fillStyle = theme.soft;
    context.fillText(`Aligned by ${state.aligned}, not by clocks`, 4, (TICKS + AXIS) / 2);
  }
  for (const mark of [...state.marks, ...(state.timing ? [state.timing] : [])])
    drawMark(context, theme, x, renderer, mark, mark === state.active || mark === state.timing);

  if (state.box) {
    const { x0, y0, x1, y1 } = state.box;
    context.fillStyle = theme.shade;
    context.strokeStyle = theme.accent;
    context.fillRect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
    context.strokeRect(Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
  }
  if (state.pointer && state.pointer.y > 0) {
    context.strokeStyle = theme.grid;
    context.beginPath();
    context.moveTo(state.pointer.x + 0.5, AXIS);
    context.lineTo(state.pointer.x + 0.5, height);
    context.stroke();
    drawPointerTime(context, theme, view, width, state);
  }
}

/** Writes the time at the pointer into the axis, and how far it is from the mark in use. */
function drawPointerTime(context, theme, view, width, { pointer, active }) {
  const pixel = (view.end - view.begin) / width;
  const at = Math.round(view.timeAt(pointer.x));
  const from =
    active && (Math.abs(at - active.begin) < Math.abs(at - active.end) ? "begin" : "end");
  const apart = from ? at - active[from] : 0;
  const distance = from ? `, ${apart < 0 ? "−" : "+"}${time(Math.abs(apart))} from the mark` : "";
  const text = `${tick(at, pixel)}${distance}`;
  const size = context.measureText(text).width + 8;
  const left = pointer.x + 4 + size > width ? pointer.x - 4 - size : pointer.x + 4;
  context.fillStyle = theme.accent;
  context.fillRect(left, 2, size, TICKS - 4);
  context.fillStyle = `rgb(${theme.back})`;
  context.fillText(text, left + 4, TICKS / 2 + 1);
}

/** Draws a marked time: its length below the axis' ticks, and a line at each edge. */
function drawMark(context, theme, x, { width, height }, { begin, end }, active) {
  const a = x(begin);
  const b = x(end);
  if (b < 0 || a > width) return;
  context.strokeStyle = context.fillStyle = theme.mark;
  context.beginPath();
  for (const at of [a, b]) {
    context.moveTo(at, TICKS);
    context.lineTo(at, height);
  }
  context.stroke();
  const from = Math.max(0, a);
  const to = Math.min(width, b);
  context.globalAlpha = active ? 0.3 : 0.15;
  context.fillRect(from, TICKS, Math.max(1, to - from), AXIS - TICKS - 1);
  context.globalAlpha = 1;
  for (const at of [a, b]) context.fillRect(at - 1.5, TICKS, 3, AXIS - TICKS - 1);
  const text = time(end - begin, 4);
  const size = context.measureText(text).width;
  // The text is within the mark or, when that is too narrow, beside it.
  const left = size + 10 < to - from ? (from + to - size) / 2 : to + 5;
  const shown = left + size > width ? from - size - 5 : left;
  context.fillText(text, Math.max(2, shown), (TICKS + AXIS) / 2);
}

function drawArrow(context, x, place, track, from, to) {
  const y0 = place(from.row, from.track);
  const y1 = place(to.row, to.track);
  if (y0 === null || y1 === null) return;
  const x0 = x(from.beginPs + Math.min(from.durationPs, Math.max(0, to.beginPs - from.beginPs)));
  const x1 = x(to.beginPs);
  const middle0 = y0 + (track - GAP) / 2;
  const middle1 = y1 + (track - GAP) / 2;
  const bend = Math.min(60, Math.max(12, Math.abs(x1 - x0) / 2));
  context.beginPath();
  context.moveTo(x0, middle0);
  context.bezierCurveTo(x0 + bend, middle0, x1 - bend, middle1, x1, middle1);
  context.stroke();
  context.beginPath();
  context.moveTo(x1, middle1);
  context.lineTo(x1 - 5, middle1 - 3);
  context.lineTo(x1 - 5, middle1 + 3);
  context.fill();
}
