// Tests that the page shows what is, by the events as the test made them: pixels of the timeline,
// and what is said of runs that lack workers or have wrong clocks. See test_viewer.py.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, afterEach, before, test } from "node:test";
import { idle, launch, listen, open, press, rowNamed, shot, text, view } from "./page.mjs";

const URL_ = process.env.STROBE_VIEW;
// {workers: [{name, shiftPs, rows: {NAME: [[beginPs, endPs], …]}}]} of the run "shifted".
const MADE = JSON.parse(readFileSync(process.env.STROBE_MADE));
let browser, page;

before(async () => {
  browser = await launch();
});
after(() => browser.close());
afterEach(async () => {
  await page?.close();
  page = null;
});

const to = (run) => `${URL_}#run=${run}`;

/** Which pixels of a row's lowest scan line differ from those of `empty`, a row without events in sight. */
function filled(row, empty) {
  return page.evaluate(
    (of, none) => {
      const canvas = document.getElementById("canvas");
      const context = canvas.getContext("2d");
      const lowest = (r) =>
        Math.round(globalThis.strobe.placeOf(r, 0)) + globalThis.strobe.layout.track - 2;
      const read = (r) =>
        new Uint32Array(context.getImageData(0, lowest(r), canvas.width, 1).data.buffer);
      const [a, b] = [read(of), read(none)];
      return Array.from(a, (pixel, x) => pixel !== b[x]);
    },
    row,
    empty,
  );
}

/** Checks each pixel of the workers' rows with the events themselves. */
async function compare() {
  const { begin, end } = await view(page);
  const wide = (await page.evaluate(() => document.getElementById("canvas").width)) / (end - begin);
  const slot = 2 ** Math.ceil(Math.log2(2 / wide)); // As in tiles.js.
  for (const [number, { shiftPs, rows }] of MADE.workers.entries()) {
    const empty = await rowNamed(page, "empty", number);
    for (const [name, events] of Object.entries(rows)) {
      if (name === "empty") continue;
      const drawn = await filled(await rowNamed(page, name, number), empty);
      const full = new Uint8Array(drawn.length); // The pixel lies within an event.
      const near = new Uint8Array(drawn.length); // An event lies within a slot of it, which is up to 4 pixels.
      const edge = new Uint8Array(drawn.length); // A pixel of background parts an event from the one before it.
      const begins = []; // Where short events begin.
      const put = (which, from, below) => {
        for (let x = Math.max(0, from); x < Math.min(below, which.length); ++x) which[x] = 1;
      };
      for (const [from, below] of events) {
        const a = (from + shiftPs - begin) * wide;
        const b = (below + shiftPs - begin) * wide;
        if (b < 0 || a > drawn.length) continue;
        // What is shorter than a slot may be moved within the slot in which it begins.
        if (below - from >= slot) put(full, Math.ceil(a + 0.6), Math.floor(b - 0.6));
        else if (a >= 1 && a < drawn.length - 1) begins.push(Math.floor(a));
        put(near, Math.floor(a) - 5, Math.ceil(b) + 6);
        put(edge, Math.floor(a) - 1, Math.floor(a) + 2);
      }
      for (const x of begins)
        assert.ok(
          drawn[x - 1] || drawn[x] || drawn[x + 1],
          `an event of ${name} that is not drawn: ${MADE.workers[number].name}, pixel ${x}, ${begin} to ${end} ps`,
        );
      for (let x = 0; x < drawn.length; ++x) {
        const where = `${name} of ${MADE.workers[number].name}, pixel ${x} of ${drawn.length}, ${begin} to ${end} ps`;
        if (full[x] && !edge[x]) assert.ok(drawn[x], `a gap that is none: ${where}`);
        if (drawn[x]) assert.ok(near[x], `an event that is none: ${where}`);
      }
    }
  }
}

// Regression: each tile of a worker whose clock is shifted ended up to a slot too early.
test("each pixel is filled where events are, at any zoom and on shifted clocks", async () => {
  page = await open(browser, to("shifted"));
  // By kind, an event of the row that is empty elsewhere would look like the others beside it.
  await page.select("#color-by", "name");
  await idle(page);
  await compare();
  await shot(page, "shifted");
  let random = 39;
  const box = await page.$eval("#canvas", (node) => {
    const { left, top, width, height } = node.getBoundingClientRect();
    return { left, top, width, height };
  });
  for (let zoom = 0; zoom < 20; ++zoom) {
    random = (random * 1103515245 + 12345) % 2147483648;
    const x = box.left + box.width * (0.2 + (0.6 * random) / 2147483648);
    await page.mouse.move(x, box.top + 10);
    await page.keyboard.down("Control");
    for (let i = 0; i < 1 + (zoom % 3); ++i)
      await page.mouse.wheel({ deltaY: zoom < 17 ? -120 : 240 });
    await page.keyboard.up("Control");
    await page.mouse.move(5, 5); // A line at the pointer would be drawn over the events.
    await idle(page);
    await compare();
  }
  assert.deepEqual(page.troubles, []);
});

test("a run that lacks workers says so on both tabs, and shows where they would be", async () => {
  page = await open(browser, to("missing"));
  await page.waitForSelector("#troubles:not([hidden])");
  const line =
    "3 of 4 workers are missing: demo-train-1 WorkerLost, demo-train-2 WorkerLost, demo-train-3 Unreachable";
  assert.equal(await text(page, "#troubles"), line);
  assert.match(
    await page.$eval("#troubles p", (node) => node.title),
    /demo-train-1: it was evicted/,
  );
  const heads = () =>
    page.$$eval(".label.section", (nodes) => nodes.map((node) => node.textContent));
  assert.deepEqual((await heads()).slice(-3), [
    "demo-train-1  WorkerLost",
    "demo-train-2  WorkerLost",
    "demo-train-3  Unreachable",
  ]);
  await shot(page, "missing-timeline");
  await page.keyboard.press("o");
  await page.waitForFunction(() => globalThis.strobe.tab === "overview");
  await page.waitForSelector("#overview .figures, #overview .note");
  assert.equal(await text(page, "#troubles"), line);
  assert.ok(await page.$eval("#troubles", (node) => node.offsetHeight > 10));
  await shot(page, "missing-overview");
  await page.close();
  page = await open(browser, to("shifted"));
  await new Promise((resolve) => setTimeout(resolve, 300));
  assert.ok(await page.$eval("#troubles", (node) => node.hidden), "there are no troubles");
});

test("clocks that cannot be right are told", async () => {
  page = await open(browser, to("clocks"));
  await page.waitForSelector("#troubles:not([hidden])");
  assert.match(
    await text(page, "#troubles"),
    /^Clocks: w1 begins 2[34]h.* after .*: its clock is wrong by as much, or it was recorded at another time \(and 1 more worker\)$/,
  );
  assert.match(
    await page.$eval("#troubles p", (node) => node.title),
    /w2 its clock is known only within 2s, and a step takes 20ms: its times cannot be compared/,
  );
  await shot(page, "clocks");
  await press(page, "c");
  await page.waitForSelector("#panel-list table");
  const problems = await page.$$eval("#panel-list table tbody tr", (rows) =>
    rows.slice(0, 4).map((row) => row.cells[4].textContent),
  );
  assert.match(problems[1], /its clock is wrong by as much/);
  assert.match(problems[2], /known only within 2s/);
  assert.equal(problems[0], "");
  assert.equal(problems[3], "");
  // The time that a step's annotation takes is not the time from one step to the next.
  assert.match(await text(page, "#panel-list"), /Time inside “train”: median 12 ms/);
});

test("a jump to a hidden row ends the filter, and the page says so", async () => {
  page = await open(browser, to("shifted"));
  await page.type("#row-filter", "w1 /device");
  await idle(page);
  const rows = () =>
    page.$$eval(".label.row .name", (nodes) => nodes.map((node) => node.textContent));
  const filtered = await rows();
  assert.ok(!filtered.includes("host"));
  await page.type("#find-text", "only on the host");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => globalThis.strobe.state.selected.length === 1);
  await idle(page);
  assert.equal(await page.$eval("#row-filter", (node) => node.value), "");
  assert.match(
    await text(page, "#notice"),
    /The filter “w1 \/device” is off: it hides the row host/,
  );
  assert.ok((await rows()).includes("host"));
  await shot(page, "filter-off");
  // A hit in a row that the filter shows leaves it alone.
  await page.type("#row-filter", "host");
  await page.keyboard.press("Enter");
  await page.focus("#find-text");
  await page.keyboard.press("Enter");
  await idle(page);
  assert.equal(await page.$eval("#row-filter", (node) => node.value), "host");
});

test("steps of PyTorch have the names that they have in the file", async () => {
  page = await open(browser, to("torch"));
  await page.type("#find-text", "ProfilerStep#6");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => globalThis.strobe.state.selected.length === 1);
  await idle(page);
  assert.match(await text(page, "#find-count"), /^1 event, 1 name/);
  assert.equal(await text(page, "#panel-title"), "ProfilerStep#6");
  const [begin, length] = await page.evaluate(() => {
    const [{ beginPs, durationPs }] = globalThis.strobe.state.selected;
    return [beginPs - globalThis.strobe.description.beginPs, durationPs];
  });
  assert.deepEqual([begin, length], [60 * 1e9, 8e9]);
  await shot(page, "own-name");
});

test("until something is drawn there is no black box, also after an error", async () => {
  page = await listen(browser);
  // The page waits for the run for as long as the test wants.
  await page.evaluateOnNewDocument(() => {
    const ask = globalThis.fetch;
    const held = new Promise((resolve) => (globalThis.goOn = resolve));
    globalThis.fetch = async (url, options) => {
      if (new URL(url, globalThis.location).pathname === "/api/run") await held;
      return ask(url, options);
    };
  });
  const opacity = () => page.$eval("#canvas", (node) => getComputedStyle(node).opacity);
  await page.goto(`${to("shifted")}&tab=timeline`);
  assert.equal(await opacity(), "0");
  assert.ok(
    await page.$eval("#stage", (node) =>
      getComputedStyle(node, "::before").backgroundImage.includes("gradient"),
    ),
  );
  await shot(page, "waiting");
  await page.evaluate(() => globalThis.goOn());
  await idle(page);
  assert.equal(await opacity(), "1");
  await page.close();
  page = await listen(browser);
  await page.goto(`${to("none")}&tab=timeline`);
  await page.waitForSelector("#panel:not([hidden])");
  assert.equal(await opacity(), "0");
  await shot(page, "no-such-run");
});
