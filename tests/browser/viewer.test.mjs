// Tests every feature of the page by keyboard and mouse. The traces are from tests/support/traces.py.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import {
  brokenRules,
  clickButton,
  copiedBy,
  drag,
  hold,
  idle,
  launch,
  open,
  pixelsOf,
  pointOf,
  press,
  reloadWithoutPolicy,
  rowNamed,
  shot,
  text,
  view,
} from "./page.mjs";

const URL_ = process.env.STROBE_VIEW;
const MS = 1e9;
let browser, page;

before(async () => {
  browser = await launch();
});
after(() => browser.close());
beforeEach(async () => {
  await page?.close();
  page = null; // It is not closed twice when the next one cannot be opened.
  page = await open(browser, URL_);
});

async function clickEvent(name, track, ps, options = {}) {
  const point = await pointOf(page, await rowNamed(page, name), track, ps);
  await page.mouse.click(point.x, point.y, options);
  await page.waitForFunction(() => !document.getElementById("panel").hidden);
  await idle(page);
}

const near = (a, b, by) => assert.ok(Math.abs(a - b) <= by, `${a} is not within ${by} of ${b}`);

test("shows both workers with their sections and rows", async () => {
  const { workers, rows, events } = await page.evaluate(() => globalThis.strobe.description);
  assert.deepEqual(
    workers.map((worker) => worker.name),
    ["worker-0", "worker-1"],
  );
  assert.equal(
    events,
    rows.reduce((sum, row) => sum + row.events, 0),
  );
  const own = rows.filter((row) => row.worker === 0).map((row) => `${row.plane} ${row.name}`);
  assert.deepEqual(own, [
    "/device:TPU:0 Steps",
    "/device:TPU:0 XLA Modules",
    "/device:TPU:0 XLA Ops",
    "/device:TPU:0 SparseCore 0 Sparse Core Ops",
    "/device:GPU:0 Launch Stats",
    "/device:GPU:0 Stream #13(Compute)",
    "/device:GPU:0 Stream #14(MemcpyH2D)",
    "/host:CPU python",
    "/host:CPU pool",
    "/host:CPU memory",
  ]);
  await shot(page, "whole");
});

test("W, S, A and D zoom and move", async () => {
  const whole = await view(page);
  const point = await pointOf(page, await rowNamed(page, "python"), 0, 25 * MS);
  await page.mouse.move(point.x, point.y);
  await hold(page, "w", 400);
  const near_ = await view(page);
  assert.ok(near_.end - near_.begin < 0.7 * (whole.end - whole.begin));
  assert.ok(near_.begin < 25 * MS && near_.end > 25 * MS, "about the pointer");
  await hold(page, "d", 200);
  const right = await view(page);
  assert.ok(right.begin > near_.begin);
  near(right.end - right.begin, near_.end - near_.begin, 10);
  await hold(page, "a", 400);
  assert.ok((await view(page)).begin < right.begin);
  await hold(page, "s", 300);
  assert.ok((await view(page)).end - (await view(page)).begin > near_.end - near_.begin);
  await press(page, "0");
  near((await view(page)).begin, whole.begin, 10);
});

test("arrows move, and step from event to event", async () => {
  const before_ = await view(page);
  await press(page, "f", "ArrowRight");
  assert.ok((await view(page)).begin > before_.begin, "without a selection they move");
  await press(page, "0");
  await clickEvent("python", 0, 12 * MS);
  await press(page, "ArrowRight");
  await page.waitForFunction(() => globalThis.strobe.state.selected[0]?.ordinal === 2);
  assert.match(await text(page, "#panel-body"), /Start20 ms/);
});

test("tools are chosen by key, shifted key and button", async () => {
  for (const [key, tool] of [
    ["2", "pan"],
    ["#", "zoom"],
    ["4", "timing"],
    ["!", "select"],
    ["@", "pan"],
    ["$", "timing"],
    ["3", "zoom"],
    ["1", "select"],
  ]) {
    await page.keyboard.press(key);
    assert.equal(await page.evaluate(() => globalThis.strobe.state.tool), tool);
    assert.equal(
      await page.$eval(`[data-tool="${tool}"]`, (node) => node.getAttribute("aria-pressed")),
      "true",
    );
  }
  await page.click('[data-tool="zoom"]');
  assert.equal(await page.evaluate(() => globalThis.strobe.state.tool), "zoom");
});

test("a click shows all that is known of an event", async () => {
  await clickEvent("XLA Ops", 0, 2.5 * MS - MS);
  const details = await text(page, "#panel");
  assert.match(details, /fusion\.1/);
  for (const part of [
    /Start1 ms/,
    /Duration3 ms/,
    /Self time2 ms/,
    /Workerworker-0/,
    /FLOPS6,000,000,000, 2 TFLOP\/s/,
    /Bytes accessed1,500,000, 500 MB\/s/,
    /hlo_categoryfusion/,
    /Stack tracetrain\.py:12 <module>\ntrain\.py:8 step/,
    /XLA modulejit_step\(1234\)/,
    /Step0 /,
  ])
    assert.match(details, part);
  await shot(page, "details");
});

test("links lead to what started an event", async () => {
  await clickEvent("Stream #13(Compute)", 0, 2.05 * MS);
  assert.match(await text(page, "#panel-body"), /Launched bycudaLaunchKernel/);
  await page.evaluate(() =>
    [...document.querySelectorAll("#panel-body button")]
      .find((node) => node.textContent.startsWith("cudaLaunchKernel"))
      .click(),
  );
  await page.waitForFunction(
    () => document.getElementById("panel-title").textContent === "cudaLaunchKernel",
  );
  assert.match(await text(page, "#panel-body"), /Launcheskernel_0/);
});

test("Ctrl and click selects several and sums them up; f zooms to them; m marks them", async () => {
  await clickEvent("python", 0, 5 * MS);
  const point = await pointOf(page, await rowNamed(page, "python"), 0, 35 * MS);
  await page.keyboard.down("Control");
  await page.mouse.click(point.x, point.y);
  await page.keyboard.up("Control");
  await page.waitForFunction(() => globalThis.strobe.state.selected.length === 2);
  const sums = await text(page, "#panel-body");
  assert.match(sums, /NameOccurrencesWall durationSelf timeAverage wall duration/);
  assert.match(sums, /train218 ms16\.8 ms9 ms/);
  await press(page, "f");
  const { begin, end } = await view(page);
  assert.ok(begin < 0 && begin > -10 * MS && end > 39 * MS && end < 50 * MS);
  await press(page, "m");
  near(
    await page.evaluate(
      () => globalThis.strobe.state.marks[0].end - globalThis.strobe.state.marks[0].begin,
    ),
    39 * MS,
    1,
  );
  await shot(page, "multi");
  await press(page, "m");
  assert.equal(await page.evaluate(() => globalThis.strobe.state.marks.length), 0);
});

test("a box selects what lies in it, and its table sorts", async () => {
  const row = await rowNamed(page, "Stream #13(Compute)");
  const from = await pointOf(page, row, 0, 1.9 * MS);
  const to = await pointOf(page, row, 0, 7.9 * MS);
  await page.mouse.move(from.x, from.y - 4);
  await page.mouse.down();
  await page.mouse.move(to.x, to.y + 4, { steps: 5 });
  await page.mouse.up();
  await page.waitForFunction(
    () => document.getElementById("panel-title").textContent === "20 events selected",
  );
  assert.match(await text(page, "#panel-body"), /20 events, 20 names; wall 3 ms, self 3 ms/);
  await page.evaluate(() => document.querySelector("#panel-body th button").click());
  assert.equal(
    await page.$eval("#panel-body th", (node) => node.getAttribute("aria-sort")),
    "ascending",
  );
  assert.equal(await page.$eval("#panel-body tbody td", (node) => node.textContent), "kernel_0");
  await shot(page, "box");
  const [heads, ...lines] = (await copiedBy(page, "#panel-details", "Copy as CSV")).split("\r\n");
  assert.equal(
    heads,
    "Name,Occurrences,Wall duration (us),Self time (us),Average wall duration (us)",
  );
  assert.equal(lines.length, 21, "20 names and the end");
});

test("what is selected of several workers is summed up by name, or each worker by itself", async () => {
  const row = await rowNamed(page, "python");
  await page.evaluate((of) => document.querySelector(`[data-key="compare ${of}"]`).click(), row);
  await idle(page);
  const from = await pointOf(page, row, 0, -0.2 * MS);
  const to = await pointOf(page, await rowNamed(page, "python", 1), 0, 5 * MS);
  await drag(page, { x: from.x, y: from.y - 4 }, { x: to.x, y: to.y });
  await page.waitForFunction(() =>
    / selected$/.test(document.getElementById("panel-title").textContent),
  );
  const trains = () =>
    page.$$eval("#panel-details tbody tr", (lines) =>
      lines.map((line) => line.textContent).filter((line) => line.startsWith("train")),
    );
  assert.match((await trains()).join(), /^train2/);
  await clickButton(page, "#panel-details", "By worker");
  assert.deepEqual((await trains()).map((line) => line.slice(0, 14)).sort(), [
    "trainworker-01",
    "trainworker-11",
  ]);
  await clickButton(page, "#panel-details", "By worker");
  assert.equal((await trains()).length, 1);
});

test("the pan tool drags, the zoom tool zooms into a part", async () => {
  const whole = await view(page);
  const row = await rowNamed(page, "python");
  const from = await pointOf(page, row, 0, 10 * MS);
  const to = await pointOf(page, row, 0, 30 * MS);
  const drag = async () => {
    await page.mouse.move(from.x, from.y);
    await page.mouse.down();
    await page.mouse.move(to.x, to.y, { steps: 6 });
    await page.mouse.up();
    await idle(page);
  };
  await page.keyboard.press("2");
  await drag();
  near((await view(page)).begin, whole.begin - 20 * MS, 0.3 * MS);
  await press(page, "0", "3");
  await drag();
  near((await view(page)).begin, 10 * MS, 0.2 * MS);
  near((await view(page)).end, 30 * MS, 0.2 * MS);
});

test("the timing tool snaps to the edges of events, to the picosecond", async () => {
  await page.keyboard.press("4");
  const row = await rowNamed(page, "python");
  const from = await pointOf(page, row, 0, 10 * MS);
  const to = await pointOf(page, row, 0, 19 * MS);
  await page.mouse.move(from.x + 3, from.y);
  await page.mouse.down();
  await page.mouse.move(to.x - 4, to.y, { steps: 5 });
  await page.mouse.up();
  await page.waitForFunction(() => globalThis.strobe.state.marks[0]?.begin === 10e9);
  assert.equal(await page.evaluate(() => globalThis.strobe.state.marks[0].end), 19 * MS);
  assert.equal(await text(page, "#announce"), "9 ms");
  await shot(page, "timing");
  await press(page, "Escape");
  assert.equal(await page.evaluate(() => globalThis.strobe.state.marks.length), 0);
});

test("finds events of all workers, by part and by regular expression", async () => {
  await page.keyboard.press("/");
  await page.keyboard.type("ernel_1");
  await page.waitForFunction(
    () => document.getElementById("find-count").textContent === "110 events, 11 names",
  );
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => globalThis.strobe.state.selected[0]?.name === "kernel_1");
  await page.keyboard.type("9");
  await page.waitForFunction(
    () => document.getElementById("find-count").textContent === "10 events, 1 name",
  );
  const told = () => text(page, "#find-count");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => globalThis.strobe.state.selected[0]?.name === "kernel_19");
  assert.equal(await told(), "1 of 10 events, 1 name");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => globalThis.strobe.state.selected[0]?.worker === "worker-1");
  assert.equal(await told(), "2 of 10 events, 1 name");
  await idle(page);
  await shot(page, "find");
  const back = async () => {
    await page.keyboard.down("Shift");
    await page.keyboard.press("Enter");
    await page.keyboard.up("Shift");
  };
  await back();
  await page.waitForFunction(() => globalThis.strobe.state.selected[0]?.worker === "worker-0");
  assert.equal(await told(), "1 of 10 events, 1 name");
  await back();
  await page.waitForFunction(() => globalThis.strobe.state.selected[0]?.beginPs > 30e9);
  assert.equal(await told(), "10 of 10 events, 1 name", "from the other end");
  await page.$eval("#find-text", (node) => {
    node.value = "^kernel_1[0-4]$";
  });
  await page.click("#find-regex");
  await page.waitForFunction(
    () => document.getElementById("find-count").textContent === "50 events, 5 names",
  );
  await page.$eval("#find-text", (node) => {
    node.value = "(";
  });
  await page.click("#find-next");
  await page.waitForFunction(() =>
    document
      .getElementById("find-count")
      .textContent.startsWith("Invalid regular expression: missing )"),
  );
});

test("flow events are drawn when asked for", async () => {
  await page.keyboard.press("v");
  await page.waitForFunction(() => globalThis.strobe.state.links.bundles > 0);
  assert.match(await text(page, "#announce"), /^200 links, all drawn/);
  await shot(page, "flows");
  await press(page, "v");
  assert.equal(await page.evaluate(() => globalThis.strobe.state.links.bundles), 0);
});

test("workers stand on one clock and are compared step by step", async () => {
  await page.keyboard.press("c");
  await page.waitForFunction(
    () => document.getElementById("panel-title").textContent === "Workers and steps",
  );
  const panel = await text(page, "#panel-body");
  assert.match(panel, /worker-0\d+first0 ps ± 40 µs/, "clocks with offset and error");
  assert.match(panel, /worker-1\d+first5 ms ± 40 µs/);
  assert.match(panel, /train 3/);
  assert.match(
    panel,
    /worker-0worker-12 msworker-16\.5 ms/,
    "who began first and last, and who ended last",
  );
  const [a, b] = await page.evaluate(() =>
    globalThis.strobe.description.workers.map((worker) => worker.shiftPs),
  );
  assert.equal(a, b, "the difference of their clocks is taken out");
  await shot(page, "compare");
  await page.evaluate(() =>
    [...document.querySelectorAll("#panel-body button")]
      .find((node) => node.textContent === "train 3")
      .click(),
  );
  await idle(page);
  assert.ok((await view(page)).begin > 28 * MS);
});

test("a row is compared on all workers with one click, and pins say whose they are", async () => {
  const row = await rowNamed(page, "pool", 1);
  const names = () =>
    page.$$eval(".label.row .name", (nodes) => nodes.map((node) => node.textContent));
  await page.evaluate((r) => globalThis.strobe.layout.compare(r), row);
  const like = await page.evaluate(() => globalThis.strobe.layout.likeCompared().length);
  assert.ok(like >= 2, `${like} rows`);
  await page.evaluate((r) => globalThis.strobe.layout.compare(r), row); // Off again.
  await page.type("#row-filter", "worker-1 /host:CPU pool");
  await idle(page);
  await page.evaluate((r) => document.querySelector(`[data-key="compare ${r}"]`).click(), row);
  await idle(page);
  const compared = await names();
  assert.equal(compared.length, like);
  assert.ok(
    compared.every((name) => /^worker-\d pool$/.test(name)),
    compared.join(),
  );
  assert.equal((await page.$$(".label.section")).length, 0, "one line for each worker");
  await page.evaluate((r) => document.querySelector(`[data-key="pin ${r}"]`).click(), row);
  await page.evaluate((r) => document.querySelector(`[data-key="compare ${r}"]`).click(), row);
  await idle(page);
  assert.equal((await names())[0], "worker-1 pool");
});

test("rows are pinned, filtered, closed and opened", async () => {
  const row = await rowNamed(page, "pool", 1);
  await page.$eval("#labels", (node) => node.scrollTo(0, 0));
  await page.type("#row-filter", "worker-1 /host:CPU pool");
  await idle(page);
  assert.deepEqual(
    await page.$$eval(".label.row .name", (nodes) => nodes.map((node) => node.textContent)),
    ["pool"],
  );
  await page.evaluate((r) => document.querySelector(`[data-key="pin ${r}"]`).click(), row);
  await page.$eval("#row-filter", (node) => {
    node.value = "";
    node.dispatchEvent(new Event("input"));
  });
  await idle(page);
  assert.deepEqual(await page.evaluate(() => globalThis.strobe.layout.pinned), [row]);
  await page.evaluate(() =>
    document.querySelector('[data-key^="section 0//device:TPU:0"]').click(),
  );
  await idle(page);
  assert.equal(
    await page.$eval('[data-key^="section 0//device:TPU:0"]', (node) =>
      node.getAttribute("aria-expanded"),
    ),
    "false",
  );
  await shot(page, "pinned");
  assert.equal(
    await page.evaluate((r) => globalThis.strobe.layout.tracksOf(r), row),
    3,
    "overlapping events have lanes",
  );
});

test("the link brings the same view back", async () => {
  await clickEvent("python", 0, 12 * MS);
  await press(page, "f", "m");
  const saved = await view(page);
  const link = page.url();
  await page.close();
  page = null;
  page = await open(browser, link);
  await page.waitForFunction(() => globalThis.strobe.state.selected[0]?.name === "train");
  near((await view(page)).begin, saved.begin, 1);
  near((await view(page)).end, saved.end, 1);
  assert.equal(await page.evaluate(() => globalThis.strobe.state.marks.length), 1);
});

test("names with HTML in them stay text", async () => {
  await clickEvent("pool", 0, 0.5 * MS);
  assert.equal(await text(page, "#panel-title"), "<img src=x onerror=alert(1)>&\"'");
  assert.equal(await page.$$eval("img", (nodes) => nodes.length), 0);
  assert.deepEqual(page.troubles, []);
});

test("hits are listed the longest first as well, and marked in the strip", async () => {
  const { hits, marks, slotPs, lengths } = await page.evaluate(async () =>
    (await fetch("/api/find?q=e&in=all&limit=10000&slots=1000")).json(),
  );
  assert.ok(hits.length > 200);
  const durations = hits.map(({ durationPs }) => durationPs);
  assert.deepEqual(lengths, {
    count: hits.length,
    leastPs: Math.min(...durations),
    mostPs: Math.max(...durations),
    sumPs: durations.reduce((a, b) => a + b),
  });
  const longest = hits.toSorted(
    (a, b) =>
      b.durationPs - a.durationPs || a.beginPs - b.beginPs || a.row - b.row || a.track - b.track,
  );
  const { x, y } = await page.evaluate(
    (slots, size) => {
      const { beginPs, endPs } = globalThis.strobe.description;
      const box = document.getElementById("strip-canvas").getBoundingClientRect();
      const margin = (endPs - beginPs) * 0.01 + 1;
      const at = (slots[0] + 0.5) * size + margin;
      return { x: box.left + (at / (endPs - beginPs + 2 * margin)) * box.width, y: box.top + 2 };
    },
    marks,
    slotPs,
  );
  const strip = async () => (await pixelsOf(browser, await page.screenshot())).at(x, y).join();
  const before_ = await strip();
  await page.type("#find-text", "e");
  await page.waitForSelector("#panel-list th[aria-sort] button");
  assert.notEqual(await strip(), before_, "a mark is there");
  const listed = () =>
    page.$$eval("#panel-list tbody button", (buttons) =>
      buttons.map((button) => button.dataset.event),
    );
  const keys = (some) => some.map(({ row, track, ordinal }) => `${row}:${track}:${ordinal}`);
  await page.focus("#panel-list th:nth-child(3) button");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#panel-list th:nth-child(3)[aria-sort=descending]");
  assert.deepEqual(await listed(), keys(longest.slice(0, 100)));
  const focused = await page.evaluate(() => document.activeElement.textContent);
  assert.equal(focused, "Duration", "the keyboard goes on from there");
  const ms = (ps) => `${Number((ps / MS).toFixed(3))} ms`;
  assert.ok(
    (await text(page, "#panel-list .note")).startsWith(
      `0 ps to ${ms(lengths.mostPs)}, on average ${Number((lengths.sumPs / lengths.count / 1e6).toFixed(3))} µs, together ${ms(lengths.sumPs)}.`,
    ),
  );
  const csv = (await copiedBy(page, "#panel-list", "Copy as CSV")).trimEnd().split("\r\n");
  assert.equal(csv[0], "Name,Start (us),Duration (us),Row,Section,Worker");
  assert.deepEqual(
    csv.slice(1).map((line) => Number(line.split(",").at(-4))),
    longest.map(({ durationPs }) => durationPs / 1e6),
    "all hits, also those of other pages",
  );
  await clickButton(page, "#panel-list", "Next events");
  await page.waitForFunction(
    (first) => document.querySelector("#panel-list tbody button").dataset.event !== first,
    { polling: 20 },
    keys(longest)[0],
  );
  assert.deepEqual(await listed(), keys(longest.slice(100, 200)));
  await clickButton(page, "#panel-list thead", "Start");
  await page.waitForSelector("#panel-list th:nth-child(2)[aria-sort=ascending]");
  await page.evaluate(() => {
    const field = document.getElementById("find-text");
    field.value = "";
    field.dispatchEvent(new Event("input"));
  });
  await page.waitForFunction(() => document.getElementById("find-count").textContent === "");
  assert.equal(await strip(), before_, "and gone");
});

test("without a mouse: rows have names, and tables tell their events", async () => {
  const row = await rowNamed(page, "python");
  await page.focus(`[data-key="row ${row}"]`);
  await page.keyboard.press("Enter");
  await page.waitForFunction(() =>
    document.querySelector("#panel-body caption")?.textContent.startsWith("Events by start time"),
  );
  const lines = await page.$$eval("#panel-body tbody tr", (nodes) =>
    nodes.map((node) => node.textContent),
  );
  assert.equal(lines.length, 100);
  assert.match(lines[0], /^train0 ps9 mspython\/host:CPUworker-0/);
  await clickButton(page, "#panel-list", "Next events");
  await page.waitForFunction(() => document.querySelectorAll("#panel-body tbody tr").length < 100);
});

test("the table of a row goes on through 600 events of one time", async () => {
  const row = await rowNamed(page, "pool");
  const events = await page.evaluate((of) => globalThis.strobe.description.rows[of].events, row);
  await page.evaluate((of) => document.querySelector(`[data-key="row ${of}"]`).click(), row);
  const seen = new Set();
  for (let first = null; ;) {
    const shown = await page.waitForFunction(
      (before_) => {
        const buttons = [...document.querySelectorAll("#panel-list [data-event]")];
        const keys = buttons.map((node) => node.dataset.event);
        return keys.length > 0 && keys[0] !== before_ && keys;
      },
      {},
      first,
    );
    const keys = await shown.jsonValue();
    for (const key of keys) assert.ok(!seen.has(key), `${key} is told twice`);
    for (const key of keys) seen.add(key);
    [first] = keys;
    if (keys.length < 100) break;
    await page.evaluate(() => [...document.querySelectorAll("#panel-list button")].at(-1).click());
  }
  assert.ok(events > 600);
  assert.equal(seen.size, events);
});

test("the picture is saved", async () => {
  const saved = page.evaluate(
    () =>
      new Promise((resolve) => {
        HTMLAnchorElement.prototype.click = function () {
          resolve([this.download, this.href]);
        };
      }),
  );
  await page.click("#export");
  const [name, href] = await saved;
  assert.match(name, /\.png$/);
  const size = await page.evaluate(async (url) => {
    const image = new Image();
    image.src = url;
    await image.decode();
    return [image.width, image.height];
  }, href);
  assert.equal(size[0], 1280, "with the names");
});

test("help, dark mode and the axis", async () => {
  await page.keyboard.press("?");
  assert.ok(await page.$eval("#keys", (node) => node.open));
  await shot(page, "help");
  await page.keyboard.press("Escape");
  await page.click("#theme");
  await idle(page);
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await shot(page, "dark");
  await page.click("#theme");
});

test("600 events of one time are all told", async () => {
  await clickEvent("pool", 0, 30 * MS);
  const total = await page.evaluate(
    async () => (await (await fetch("/api/find?q=tie")).json()).total,
  );
  assert.equal(total, 1200);
});

test("no accessibility rule is broken, in any state and theme", async () => {
  const check = async (what) => assert.deepEqual(await brokenRules(page), [], what);
  await reloadWithoutPolicy(page);
  await idle(page);
  await check("whole");
  await clickEvent("XLA Ops", 0, 1.5 * MS);
  await check("details");
  await press(page, "c");
  await check("compare");
  await page.click("#theme");
  await check("dark");
  await page.click("#theme");
  await page.keyboard.press("?");
  await check("help");
});

test("nothing foreign is asked for, and nothing goes wrong", async () => {
  await press(page, "c", "v");
  await clickEvent("python", 0, 5 * MS);
  const foreign = page.asked.filter(
    (url) => !url.startsWith(new URL(URL_).origin) && !url.startsWith("blob:"),
  );
  assert.deepEqual(foreign, []);
  assert.ok(page.asked.length > 10);
  assert.deepEqual(page.troubles, []);
});

test("works without WebGL", async () => {
  const bare = await launch("--disable-gpu", "--disable-3d-apis");
  try {
    const other = await open(bare, URL_);
    assert.equal(
      await other.evaluate(() => document.createElement("canvas").getContext("webgl2")),
      null,
    );
    const colors = await other.evaluate(() => {
      const canvas = document.getElementById("canvas");
      const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      return new Set(new Uint32Array(data.buffer)).size;
    });
    assert.ok(colors > 20, "something is drawn");
  } finally {
    await bare.close();
  }
});

// Regression: the coarsest tiles were asked for twice where they suit the zoom, as here.
test("no tile of the first view is asked for twice", async () => {
  const tiles = [];
  page.on(
    "request",
    (request) => request.url().includes("/api/tiles") && tiles.push(request.url()),
  );
  await page.reload();
  await idle(page);
  assert.ok(tiles.length > 0);
  assert.deepEqual(tiles, [...new Set(tiles)]);
});

test("data is loaded on demand, and a coarse picture stands in until it is there", async () => {
  const tiles = () => page.asked.filter((url) => url.includes("/api/tiles")).length;
  // Steps lie there at any zoom, so it does not matter how far the page zooms on a slow machine.
  const point = await pointOf(page, await rowNamed(page, "Steps"), 0, 24 * MS);
  const canvas = await page.$eval("#canvas", (node) => node.getBoundingClientRect().bottom);
  const isDrawn = async () => {
    const picture = await pixelsOf(browser, await page.screenshot());
    const back = String(picture.at(Math.round(point.x), Math.round(canvas) - 8));
    return String(picture.at(Math.round(point.x) - 40, Math.round(point.y) + 3)) !== back;
  };
  const before_ = tiles();
  const whole = await view(page);
  await page.emulateNetworkConditions({ latency: 5000, download: -1, upload: -1 });
  await page.mouse.move(point.x, point.y);
  await page.keyboard.down("w");
  await page.waitForFunction(
    (span) => globalThis.strobe.view.end - globalThis.strobe.view.begin < span,
    {},
    (whole.end - whole.begin) / 8,
  );
  await page.keyboard.up("w");
  assert.equal(await page.evaluate(() => globalThis.strobe.idle), false, "it has not come yet");
  assert.ok(await isDrawn(), "something is drawn meanwhile");
  await shot(page, "coarse");
  await page.emulateNetworkConditions(null);
  await idle(page);
  assert.ok(tiles() > before_, "what is looked at was asked for");
  assert.ok(await isDrawn());
  assert.deepEqual(page.troubles, []);
});
