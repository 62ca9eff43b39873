// Tests going back and forth, other alignments than by clocks, and fingers. The traces are from
// tests/support/traces.py: worker-1 begins each step 2 ms after worker-0.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  idle,
  open,
  pointOf,
  press,
  resize,
  rowNamed,
  shot,
  startBrowser,
  text,
  view,
} from "./page.mjs";

const URL_ = process.env.STROBE_VIEW;
const MS = 1e9;
let page;
const browser = await startBrowser(() => page);

const tab = () => page.evaluate(() => globalThis.strobe.tab);
const selected = () =>
  page.evaluate(() => globalThis.strobe.state.selected.map(({ name }) => name));
/** The view in whole picoseconds, as links have it. */
const whole = async () => {
  const { begin, end } = await view(page);
  return [Math.round(begin), Math.round(end)];
};
const width = async () => (await view(page)).end - (await view(page)).begin;
const written = (part) =>
  page.waitForFunction((of) => location.hash.includes(of), { polling: 20 }, part);

test("back leads from a tab and from a hit to what was shown before", async () => {
  page = await open(browser, URL_);
  await press(page, "w", "w");
  await written("t=");
  const before_ = await whole();
  await page.click("#tab-tables");
  await written("tab=tables");
  await page.click("#tab-overview");
  await written("tab=overview");
  await page.goBack();
  await page.waitForFunction(() => globalThis.strobe.tab === "tables", { polling: 20 });
  await page.goBack();
  await page.waitForFunction(() => globalThis.strobe.tab === "timeline", { polling: 20 });
  await idle(page);
  assert.deepEqual(await whole(), before_);
  await page.type("#find-text", "kernel_7");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => globalThis.strobe.state.selected.length === 1, { polling: 20 });
  await written("event=");
  assert.match((await selected())[0], /kernel_7/);
  await page.goBack();
  await page.waitForFunction(() => globalThis.strobe.state.selected.length === 0, { polling: 20 });
  await idle(page);
  assert.deepEqual(await whole(), before_);
  await page.goForward();
  await page.waitForFunction(() => globalThis.strobe.state.selected.length === 1, { polling: 20 });
  assert.equal(await tab(), "timeline");
});

test("workers are aligned by a step, and the link keeps it", async () => {
  page = await open(browser, URL_);
  const spread = () =>
    page.evaluate(async () => {
      const { run, align } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
      const query = new URLSearchParams({ run, number: 1, ...(align ? { align } : {}) });
      const { step } = await (await fetch(`api/steps?${query}`)).json();
      return step.beginSpreadPs;
    });
  await written("t=");
  const clocks = await spread();
  assert.ok(clocks > 0);
  await page.focus("#align");
  await page.waitForSelector("#align option[value='step:1']");
  await page.select("#align", "step:1");
  await page.waitForFunction(() => globalThis.strobe.state.aligned === "the begin of step 1");
  await idle(page);
  await written("align=step");
  assert.equal(await spread(), 0);
  await shot(page, "aligned");
  const begins = await page.evaluate(async () => {
    const rows = globalThis.strobe.description.rows.flatMap(({ name }, i) =>
      name === "python" ? [i] : [],
    );
    const { run, align } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    const query = new URLSearchParams({ run, align, q: "train", limit: 100 });
    const { hits } = await (await fetch(`api/find?${query}`)).json();
    return rows.map((row) => hits.filter((hit) => hit.row === row)[1].beginPs);
  });
  assert.equal(begins.length, 2);
  assert.equal(begins[0], begins[1], "the events lie where the steps do");
  await page.reload();
  await idle(page);
  assert.equal(await page.$eval("#align", (node) => node.value), "step:1");
  await page.goBack(); // The page is loaded anew, in which Puppeteer cannot wait for a function.
  let aligned = null;
  for (let i = 0; i < 300 && aligned !== ""; ++i) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    aligned = await page.evaluate(() => globalThis.strobe.state.aligned).catch(() => null);
  }
  assert.equal(aligned, "", "by clocks again");
});

test("two fingers zoom, and one moves what is in sight", async () => {
  page = await open(browser, URL_);
  const session = await page.createCDPSession();
  const touch = (type, ...points) =>
    session.send("Input.dispatchTouchEvent", {
      type,
      touchPoints: points.map(([x, y, id]) => ({ x, y, id })),
    });
  const all = await width();
  await touch("touchStart", [600, 400, 0]);
  await touch("touchStart", [600, 400, 0], [800, 400, 1]);
  await touch("touchMove", [500, 400, 0], [900, 400, 1]);
  await touch("touchEnd");
  await idle(page);
  const ratio = all / (await width());
  assert.ok(Math.abs(ratio - 2) < 0.02, `a pinch to twice the distance zoomed by ${ratio}`);
  const { begin } = await view(page);
  const zoomed = await width();
  await touch("touchStart", [700, 400, 0]);
  await touch("touchMove", [650, 400, 0]);
  await touch("touchMove", [600, 400, 0]);
  await touch("touchEnd");
  await idle(page);
  const canvas = await page.$eval("#canvas", (node) => node.clientWidth);
  const moved = (await view(page)).begin - begin;
  assert.ok(moved > (60 / canvas) * zoomed, "the finger took the events along");
  assert.ok(Math.abs((await width()) - zoomed) < 1e-6 * zoomed);
  assert.deepEqual(await selected(), []);
});

test("a double click zooms although the server is far away", async () => {
  page = await open(browser, URL_);
  await page.evaluate(() => {
    const ask = globalThis.fetch;
    globalThis.fetch = async (url, options) => {
      if (String(url).includes("api/event?")) await new Promise((done) => setTimeout(done, 300));
      return ask(url, options);
    };
  });
  const { x, y } = await pointOf(page, await rowNamed(page, "python"), 0, 25 * MS);
  await page.mouse.click(x, y, { count: 2 });
  await page.waitForFunction(
    () => globalThis.strobe.view.end - globalThis.strobe.view.begin < 12e9,
    { polling: 20 },
  );
  assert.equal((await selected())[0], "train");
});

test("what is found, or is not, leaves the page in its place", async () => {
  page = await open(browser, URL_);
  await page.setViewport({ width: 1440, height: 800 });
  await idle(page);
  const height = () => page.$eval("header", (node) => node.offsetHeight);
  const before_ = await height();
  await page.type("#find-text", "kernel");
  await page.waitForFunction(() => document.getElementById("find-count").textContent !== "");
  assert.equal(await height(), before_);
  await page.type("#row-filter", "no such row");
  await page.waitForFunction(
    () => document.getElementById("empty").textContent === "No row matches “no such row”.",
  );
  await shot(page, "no-row");
  assert.equal(await text(page, "#notice"), "");
});

test("the name of a row stays while its tracks are scrolled", async () => {
  page = await open(browser, URL_);
  await resize(page, 1280, 300);
  const row = await page.evaluate(() => {
    const { layout } = globalThis.strobe;
    const item = layout.items.find(({ tracks }) => tracks > 2);
    return item && { row: item.row, y: item.y, track: layout.track };
  });
  assert.ok(row, "a row has several tracks");
  await page.evaluate(({ y, track }) => {
    const canvas = document.getElementById("canvas");
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: -1e6, cancelable: true }));
    canvas.dispatchEvent(new WheelEvent("wheel", { deltaY: y + track, cancelable: true }));
  }, row);
  await idle(page);
  const places = await page.evaluate((number) => {
    const name = document.querySelector(`[data-key="row ${number}"]`);
    const canvas = document.getElementById("canvas");
    return { name: name?.getBoundingClientRect().top, top: canvas.getBoundingClientRect().top };
  }, row.row);
  assert.ok(places.name >= places.top + 38 - 1, "the name is below the axis and not behind it");
});
