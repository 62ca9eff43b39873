// Tests what the page makes of a job's data: links, arguments, pools of threads and HLO graphs. The
// trace is large_job() of tests/integration/test_viewer.py.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import { count, exact, firstLines } from "../../viewer/web/shared/format.js";
import {
  brokenRules,
  clickButton,
  idle,
  launch,
  listen,
  open,
  press,
  refuse,
  reloadWithoutPolicy,
  shot,
  text,
} from "./page.mjs";

const URL_ = process.env.STROBE_VIEW;
let browser, page;

before(async () => {
  browser = await launch();
});
after(() => browser.close());
beforeEach(async () => {
  await page?.close();
  page = await open(browser, URL_);
});

const links = () => page.evaluate(() => globalThis.strobe.state.links);
const counted = async (words) =>
  page.waitForFunction(
    (wanted) => document.getElementById("find-count").textContent === wanted,
    {},
    words,
  );
/** Opens the details of the first kernel. */
async function selectKernel() {
  await page.keyboard.press("/");
  await page.keyboard.type("kernel_0");
  await counted("2,858 events, 1 name");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => globalThis.strobe.state.selected[0]?.name === "kernel_0");
  await idle(page);
}

test("all flows are drawn, whatever the zoom, and told", async () => {
  await press(page, "v");
  await page.waitForFunction(() => globalThis.strobe.state.links.bundles > 0);
  const whole = await links();
  assert.equal(whole.total, 20_000);
  assert.equal(whole.drawn, 20_000);
  assert.ok(whole.bundles < 10_000 && whole.bundles > 500, `${whole.bundles} bundles`);
  const told = `20,000 links, all drawn as ${whole.bundles.toLocaleString("en-US")} bundles`;
  assert.equal(await text(page, "#announce"), told);
  assert.match(await page.$eval("#flows", (node) => node.title), /^20,000 links/);
  await shot(page, "all-flows");
  // Zoomed in, every link is its own arrow.
  await page.mouse.move(700, 300);
  await page.keyboard.down("w");
  await page.waitForFunction(
    () => globalThis.strobe.view.end - globalThis.strobe.view.begin < 3_000 * 1e6,
  );
  await page.keyboard.up("w");
  await idle(page);
  await page.waitForFunction(() => globalThis.strobe.state.links.total < 200);
  const near = await links();
  assert.equal(near.drawn, near.total);
  assert.equal(near.bundles, near.total);
  await shot(page, "near-flows");
});

test("the arrows' pixels are there, and gone again", async () => {
  const pixels = () =>
    page.evaluate(() => {
      const canvas = document.getElementById("canvas");
      const context = canvas.getContext("2d");
      return [...context.getImageData(0, 40, canvas.width, canvas.height - 40).data].reduce(
        (sum, value, i) => (i % 4 === 1 ? sum + value : sum),
        0,
      );
    });
  const first = await pixels();
  await press(page, "v");
  await page.waitForFunction(() => globalThis.strobe.state.links.bundles > 0);
  await idle(page);
  assert.ok((await pixels()) < first * 0.999, "red lines take green away");
  await press(page, "v");
  assert.equal(await pixels(), first);
});

test("a hit says in which section it is, and what matches", async () => {
  await page.keyboard.press("/");
  await page.keyboard.type("f32[9998]");
  await counted("2 events");
  const rows = await page.$$eval("#panel-body tbody tr", (nodes) =>
    nodes.map((node) => [...node.cells].map((cell) => cell.textContent)),
  );
  assert.equal(rows.length, 2);
  assert.deepEqual(rows.map((cells) => cells[4]).sort(), ["/device:GPU:0", "/device:GPU:1"]);
  for (const cells of rows) assert.equal(cells[6], "shape: f32[9998]");
  // The list stays beside the hit.
  await clickButton(page, "#panel-body", "kernel_");
  await page.waitForFunction(() => globalThis.strobe.state.selected.length === 1);
  await idle(page);
  assert.equal(await page.$$eval("#panel-list tbody tr", (nodes) => nodes.length), 2);
  await shot(page, "arguments");
});

test("names of arguments and shared texts are found", async () => {
  await page.keyboard.press("/");
  await page.keyboard.type("model/dense");
  await page.waitForFunction(() =>
    document.getElementById("find-count").textContent.endsWith("1 name"),
  );
  assert.match(await text(page, "#find-count"), /^20,00\d events/, "kernels and the derived line");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => globalThis.strobe.state.selected.length === 1);
});

test("threads of a pool are a section of their own", async () => {
  await page.type("#row-filter", "/host:CPU");
  await idle(page);
  const names = await page.$$eval(".label .name", (nodes) => nodes.map((node) => node.textContent));
  assert.deepEqual(names, [
    "▾ /host:CPU",
    "python",
    "grpc/7",
    "▾ /host:CPU tf_XLAEigen",
    "tf_XLAEigen/11",
    "tf_XLAEigen/-12",
  ]);
  await page.$eval("#row-filter", (node) => (node.value = ""));
  await page.type("#row-filter", "tf_XLAEigen");
  await idle(page);
  assert.equal(await page.$$eval(".label.row", (nodes) => nodes.length), 2);
  await shot(page, "pools");
});

test("an XLA op opens the graph of its module", async () => {
  await selectKernel();
  const link = await page.$eval("#panel-body a", (node) => [node.href, node.rel]);
  assert.equal(
    link[0],
    "http://localhost:8791/?tool=graph_viewer&run=job.xplane.pb&host=job&module_name=jit_step%2812%29&node_name=fusion.3#profile",
  );
  assert.match(link[1], /noopener/);
  await clickButton(page, "#panel-body", "fusion.3 in jit_step");
  await page.waitForSelector("svg.graph");
  assert.equal(await text(page, "#panel-title"), "HLO graph of jit_step");
  const names = await page.$$eval("svg.graph .node .name", (nodes) =>
    nodes.map((node) => node.textContent).sort(),
  );
  assert.deepEqual(names, ["<b>&", "add.5", "fusion.3", "p.0", "p.1"]);
  assert.equal(await page.$$eval("svg.graph .edge", (nodes) => nodes.length), 5);
  assert.equal(
    await text(page, ".graph-text pre"),
    "%fusion.3 = f32[8,16]{1,0} fusion(%p.0, %p.1)",
  );
  // What an instruction uses lies above it.
  const tops = await page.$$eval("svg.graph .node", (nodes) =>
    Object.fromEntries(
      nodes.map((node) => [
        node.querySelector(".name").textContent,
        node.getBoundingClientRect().top,
      ]),
    ),
  );
  assert.ok(tops["p.0"] < tops["fusion.3"] && tops["fusion.3"] < tops["<b>&"]);
  assert.ok(tops["<b>&"] < tops["add.5"]);
  await shot(page, "graph");
  // The keyboard opens nodes as well.
  await page.$eval('svg.graph [data-id="4"]', (node) => node.focus());
  await page.keyboard.press("Enter");
  assert.match(await text(page, ".graph-text pre"), /^ROOT %add\.5 = .*add\(%fusion\.3, %<b>&\)$/);
  await clickButton(page, "#panel-body", "Show operands and users");
  await idle(page);
  assert.equal(await page.$$eval("svg.graph .node", (nodes) => nodes.length), 5);
  await clickButton(page, "#panel-body", "← The selected event");
  assert.equal(await text(page, "#panel-title"), "kernel_0");
  assert.deepEqual(page.troubles, []);
});

test("a graph that cannot be had says why", async () => {
  await selectKernel();
  await refuse(page, "graph", "the HLO of jit_step cannot be read\n");
  await clickButton(page, "#panel-body", "fusion.3 in jit_step");
  await page.waitForFunction(
    () => document.getElementById("notice").textContent === "the HLO of jit_step cannot be read",
  );
});

test("exact times stay exact", () => {
  const times = [0, 1, 999, 1e9 - 1, 18_996_000_001, -1500, 3_661_123_456_789_013].map(exact);
  assert.deepEqual(times, [
    "0 ps",
    "1 ps",
    "999 ps",
    "999.999999 µs",
    "18.996000001 ms",
    "-1.5 ns",
    "3661.123456789013 s",
  ]);
});

// Regression: without storage, no run was opened at all.
test("the page works where the browser keeps nothing; a row is pinned once", async () => {
  await page.close();
  page = await listen(browser);
  await page.evaluateOnNewDocument(() => {
    Object.defineProperty(globalThis, "localStorage", {
      get() {
        throw new DOMException("blocked", "SecurityError");
      },
    });
  });
  await page.goto(`${URL_}#tab=timeline&pins=1,1`);
  await idle(page);
  const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
  const first = await theme();
  await page.click("#theme");
  assert.notEqual(await theme(), first);
  assert.deepEqual(await page.evaluate(() => globalThis.strobe.layout.pinned), [1]);
  assert.deepEqual(page.troubles, []);
});

test("of many problems the first are told", () => {
  const lines = Array.from({ length: 2000 }, (_, i) => `worker-${i}: cut`);
  assert.equal(firstLines(lines, 2), "worker-0: cut\nworker-1: cut\nand 1,998 more");
  assert.equal(firstLines(lines.slice(0, 2), 2), "worker-0: cut\nworker-1: cut");
  assert.equal(firstLines([], 2), "");
});

test("numbers are grouped as in English", () => {
  for (const number of [0, 7, 999, 1000, -1234, 12_345_678, 9_007_199_254_740_991, 1234.5678, 0.25])
    assert.equal(count(number), number.toLocaleString("en-US"));
});

test("the graph breaks no accessibility rule", async () => {
  await reloadWithoutPolicy(page);
  await idle(page);
  await selectKernel();
  await clickButton(page, "#panel-body", "fusion.3 in jit_step");
  await page.waitForSelector("svg.graph");
  for (const theme of ["light", "dark"]) {
    assert.deepEqual(await brokenRules(page, "#panel"), [], theme);
    await page.click("#theme");
  }
});

test("name scopes of a worker's further GPUs begin with one track", async () => {
  const tracks = await page.evaluate(() => {
    const { description, layout } = globalThis.strobe;
    const scopes = description.rows
      .keys()
      .filter((row) => description.rows[row].name === "Framework Name Scope");
    return [...scopes].map((row) => [description.rows[row].tracks, layout.tracksOf(row)]);
  });
  assert.equal(tracks.length, 2);
  assert.ok(tracks.every(([all]) => all > 1));
  assert.deepEqual(
    tracks.map(([, shown]) => shown),
    [tracks[0][0], 1],
  );
});
