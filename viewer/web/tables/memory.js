// The curves of a worker's memory, and what was allocated at the peak.
import { bytesOf, textOf, timeOf } from "../shared/column.js";
import { element, legend } from "../shared/elements.js";
import { bytes, count, several, time } from "../shared/format.js";
import { Sheet } from "../shared/sheet.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000; // The drawing has these units; it is stretched to the width of the page.
const HEIGHT = 160;

/** The nodes of a worker's curves: those of one device share a chart. */
export function memoryCharts(rows, { beginPs, endPs }) {
  const devices = grouped(rows, ({ plane }) => plane);
  return [...devices].flatMap(([plane, curves]) => [
    chart(plane, curves, beginPs, Math.max(endPs, beginPs + 1)),
    ...curves.filter(({ alive }) => alive).map(aliveAtPeak),
  ]);
}

function grouped(rows, keyOf) {
  const groups = new Map();
  for (const row of rows) groups.set(keyOf(row), [...(groups.get(keyOf(row)) ?? []), row]);
  return groups;
}

function chart(plane, curves, begin, end) {
  const most = Math.max(1, ...curves.map(({ peak }) => peak));
  const x = (ps) => (WIDTH * (ps - begin)) / (end - begin);
  const y = (value) => HEIGHT * (1 - Math.max(0, value) / most);
  const peaks = curves.map(
    ({ counter, peak, peakAtPs }) => `${counter}: ${bytes(peak)} at most, at ${time(peakAtPs)}`,
  );
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", `Memory of ${plane}. ${peaks.join(". ")}`);
  curves.forEach((curve, i) => {
    let d = "";
    for (const [at, value] of curve.points) {
      const [left, top] = [x(at).toFixed(2), y(value).toFixed(2)];
      d += d ? `H${left}V${top}` : `M${left} ${top}`;
    }
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", d && `${d}H${WIDTH}`);
    path.setAttribute("class", `curve curve-${i % 3}`);
    drawing.append(path);
  });
  const colors = legend(peaks.map((text, i) => [`curve-${i % 3}`, text]));
  const axis = element("div", "", "axis values");
  for (const part of [1, 0.5, 0]) axis.append(element("span", bytes(most * part)));
  const times = element("div", "", "axis");
  times.append(element("span", begin === 0 ? "0" : time(begin)), element("span", time(end)));
  const readout = element("p", "Point at the curve for its values.", "readout");
  readValues(drawing, readout, curves, begin, end);
  const plot = element("div", "", "plot");
  plot.append(axis, drawing, element("span"), times);
  const box = element("div", "", "memory");
  box.append(element("h2", plane), colors, plot, readout);
  return box;
}

/** Tells the values at the pointer. */
function readValues(drawing, readout, curves, begin, end) {
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const at = begin + ((end - begin) * (event.clientX - box.left)) / box.width;
    const values = curves.map(({ counter, points, first }) => {
      const before = points.findLast(([ps]) => ps <= at);
      return `${counter} ${bytes(before ? before[1] : first)}`;
    });
    readout.textContent = `${time(at)}: ${values.join(", ")}`;
  });
}

function aliveAtPeak({ counter, peak, peakAtPs, alive, aliveBytes, aliveLeftOut }) {
  const rest = peak - aliveBytes;
  const all = several(alive.length + aliveLeftOut, "allocation");
  const held =
    rest > 0 ? ` ${bytes(rest)} of the peak was allocated before the recording began.` : "";
  const left = aliveLeftOut > 0 ? ` The ${count(alive.length)} largest are listed.` : "";
  const columns = [
    bytesOf("Size", "bytes"),
    timeOf("Allocated at", "beginPs"),
    textOf("By", "by", "The innermost operator on the thread"),
  ];
  const caption = `Alive at the peak of ${counter}`;
  const sheet = new Sheet(caption, columns, alive, { order: "Size" });
  const box = element("div", "", "alive");
  box.append(
    element("h2", `${caption}, at ${time(peakAtPs)}`),
    element("p", `${all} of ${bytes(aliveBytes)}.${held}${left}`, "note"),
    sheet.element,
  );
  return box;
}
