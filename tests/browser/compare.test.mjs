// Tests the comparison of two runs and of two workers, and what colours tell, against what
// tests/integration/test_viewer_tables.py has computed from the traces.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  brokenRules,
  clickButton,
  copiedBy,
  idle,
  listen,
  open,
  pixelsOf,
  pointOf,
  press,
  rowNamed,
  shot,
  startBrowser,
  text,
} from "./page.mjs";

const URL_ = process.env.STROBE_VIEW; // A logdir with the runs "before" and "after".
const RANKS = process.env.STROBE_RANKS; // A run of four ranks, of which the last one is odd.
const WITNESS = JSON.parse(readFileSync(process.env.STROBE_WITNESS));
const US = 1e6;
let page;
const browser = await startBrowser(() => page);

/** Waits until the comparison is shown and drawn. */
async function compared() {
  await page.waitForFunction(
    () =>
      document.getElementById("answer")?.hidden === false &&
      globalThis.strobe.lanes.every(({ idle, rows }) => idle && rows > 0),
    { polling: 20 },
  );
}

async function visit(hash, url = URL_) {
  page = await listen(browser);
  await page.goto(`${url}compare.html#${new URLSearchParams(hash)}`);
  await compared();
}

const lanes = () => page.evaluate(() => globalThis.strobe.lanes);

/** The texts of a table's cells, by row. */
const cells = (id) =>
  page.$$eval(`#${id} tbody tr`, (rows) =>
    rows.map((row) => [...row.cells].map((cell) => cell.textContent)),
  );

/** The rows that are copied as CSV. */
async function csv() {
  const copied = await copiedBy(page, ".table-bar", "Copy as CSV");
  const [heads, ...lines] = copied.trimEnd().split(/\r?\n/);
  assert.match(heads, /^Name,Kind,A \(us\),B \(us\),Difference \(us\),Change \(%\),/);
  return lines.map((line) => line.split(","));
}

const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-3, `${a} is not ${b}`);

test("two runs are ticked in the list, by mouse and by keyboard, and compared", async () => {
  page = await listen(browser);
  await page.goto(`${URL_}runs.html`);
  await page.waitForSelector('#runs tr[data-name="after"] input');
  await page.click('#runs tr[data-name="before"] input');
  assert.equal(await text(page, "#compare"), "Compare: tick one more");
  assert.equal(await page.$eval("#compare", (node) => node.disabled), true);
  await page.focus('#runs tr[data-name="after"]');
  await page.keyboard.press("Space");
  assert.equal(await page.$eval("#details", (node) => node.hidden), true, "no row was opened");
  assert.equal(await text(page, "#compare"), "Compare two runs");
  await page.click("#compare");
  await compared();
  const chosen = await page.$$eval("header select", (lists) => lists.map(({ value }) => value));
  assert.deepEqual(chosen, ["before", "", "after", ""]);
});

test("operations are compared by name: the own time of a step, the largest difference first", async () => {
  await visit({ a: "before", b: "after" });
  const rows = await csv();
  assert.equal(rows.length, WITNESS.kernels.length);
  const expected = new Map(WITNESS.kernels.map(([name, a, b]) => [name, { a, b }]));
  for (const [name, , a, b, difference] of rows.map((row) => row.slice(0, 5))) {
    const { a: before_, b: after_ } = expected.get(name);
    near(Number(a), before_);
    near(Number(b), after_);
    near(Number(difference), after_ - before_);
  }
  const sizes = rows.map((row) => Math.abs(Number(row[4])));
  assert.deepEqual(
    sizes,
    [...sizes].sort((x, y) => y - x),
  );
  await page.select("#table", "operators");
  await page.waitForFunction(() => /aten::op/.test(document.getElementById("names").textContent), {
    polling: 20,
  });
});

test("the headline and the parts are the means of the steps", async () => {
  await visit({ a: "before", b: "after" });
  const [a, b] = WITNESS.meanStep;
  const headline = await text(page, "#headline");
  assert.match(headline, a < b ? /longer in B/ : /less in B/);
  const percent = Math.abs(b / a - 1) * 100;
  assert.ok(headline.includes(`(${percent.toFixed(percent < 10 ? 1 : 0)} %)`), headline);
  const parts = new Map((await cells("parts")).map(([name, ...rest]) => [name, rest]));
  assert.ok(parts.has("The whole step") && parts.has("Compute"));
  assert.ok(parts.has("Exposed communication"));
  const steps = await cells("steps");
  assert.deepEqual(
    steps.map(([label]) => Number(label)),
    WITNESS.steps.map(([number]) => number),
  );
});

test("both timelines have a common zero, and move together", async () => {
  await visit({ a: "before", b: "after" });
  const begins = WITNESS.begins[1].map((us) => us * US); // In step 1.
  const [a, b] = await lanes();
  near((b.zero - a.zero) / US, (begins[1] - begins[0]) / US);
  near((a.begin - a.zero) / US, (b.begin - b.zero) / US);
  await page.focus("#lane-b canvas");
  for (const key of ["w", "w", "d"]) await page.keyboard.press(key);
  await compared();
  const [c, d] = await lanes();
  assert.ok(c.end - c.begin < a.end - a.begin, "it zooms");
  near((c.begin - c.zero) / US, (d.begin - d.zero) / US);
  await page.click("#steps tbody tr:nth-child(3) button"); // Step 2.
  await compared();
  const [e, f] = await lanes();
  const zeros = WITNESS.begins[2].map((us) => us * US);
  near((f.zero - e.zero) / US, (zeros[1] - zeros[0]) / US);
  near((e.zero - a.zero) / US, (zeros[0] - begins[0]) / US);
  await page.keyboard.press("0");
  await page.select("#zero", "begin");
  await compared();
  const [g] = await lanes();
  assert.ok(g.begin < g.zero && g.end - g.begin > e.end - e.begin, "all of both is shown");
});

test("both timelines have the colours of the kinds of work, which are explained", async () => {
  await visit({ a: "before", b: "after" });
  const kinds = await page.$$eval("#kinds li", (list) => list.map((entry) => entry.textContent));
  assert.deepEqual(kinds.slice(0, 2), ["Compute", "Communication"]);
  await page.waitForFunction(
    () => {
      const swatch = document.querySelector("#kinds .communication");
      const wanted = getComputedStyle(swatch).backgroundColor.match(/\d+/g).join();
      return [...document.querySelectorAll(".lane canvas")].every((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        for (let i = 0; i < data.length; i += 4)
          if (data.slice(i, i + 3).join() === wanted) return true;
        return false;
      });
    },
    { polling: 200 },
  );
});

test("two workers are chosen in the timeline's pane and compared", async () => {
  page = await open(browser, RANKS);
  await page.keyboard.press("c");
  await page.waitForSelector('#panel-list select[aria-label="with worker"]');
  await page.select('#panel-list select[aria-label="with worker"]', "rank3");
  await clickButton(page, "#panel-list", "Compare");
  await page.waitForFunction(() => location.pathname === "/compare.html", { polling: 20 });
  await compared();
  const chosen = await page.$$eval("header select", (lists) => lists.map(({ value }) => value));
  assert.deepEqual([chosen[1], chosen[3]], ["rank0", "rank3"]);
  const rows = await csv();
  const differing = rows.filter((row) => Number(row[4]) !== 0);
  assert.deepEqual(differing.map(([name]) => name).sort(), ["gemm_0", "gemm_4"]);
  const [a, b] = await lanes();
  assert.equal(a.zero, b.zero, "workers of a run are on one clock");
  await page.click("#names tbody button");
  const names = await page.$$eval(".names .corner", (nodes) => nodes.map((n) => n.textContent));
  assert.match(names[0], /^A: rank0/);
  assert.match(names[1], /^B: rank3/);
});

test("colours tell the kind of work, the name, or the step", async () => {
  page = await open(browser, RANKS);
  const row = await rowNamed(page, WITNESS.stream);
  const look = async () => {
    const seen = [];
    for (const { beginPs, durationPs } of WITNESS.events) {
      const around = [beginPs - durationPs, beginPs + 2 * durationPs];
      await page.goto("about:blank");
      await page.goto(`${RANKS}#tab=timeline&t=${around.join()}`);
      await idle(page);
      await page.waitForFunction(() => globalThis.strobe.colored, { polling: 20 });
      await idle(page);
      const { x, y } = await pointOf(page, row, 0, beginPs + 0.8 * durationPs);
      const picture = await pixelsOf(browser, await page.screenshot());
      seen.push(picture.at(x, y + 5).join());
    }
    return seen;
  };
  const legend = () =>
    page.$$eval("#color-legend li", (entries) => entries.map((entry) => entry.textContent));
  await page.waitForSelector("#color-legend li");
  assert.deepEqual(await legend(), ["Compute", "Communication", "Copies", "Input"]);
  const compute = await page.$eval("#color-legend .compute", (node) =>
    getComputedStyle(node).backgroundColor.match(/\d+/g).join(),
  );
  assert.deepEqual(await look(), [compute, compute, compute]);
  await page.select("#color-by", "name");
  const byName = await look();
  assert.notEqual(byName[0], byName[1], "two kernels");
  assert.equal(await page.$eval("#color-legend", (node) => node.hidden), true);
  await page.select("#color-by", "step");
  const byStep = await look();
  assert.equal(byStep[0], byStep[1], "one step");
  assert.notEqual(byStep[0], byStep[2], "two steps");
  await page.select("#color-by", "kind");
  await press(page, "0");
  await shot(page, "timeline-kinds");
});

test("the comparison can be read by everybody, in both themes and on narrow pages", async () => {
  await visit({ a: "before", b: "after" });
  await page.setBypassCSP(true); // The page's policy would block the test's tool.
  for (const theme of ["light", "dark"]) {
    await page.evaluate((kept) => localStorage.setItem("theme", kept), theme);
    for (const width of [1280, 420]) {
      await page.setViewport({ width, height: 900 });
      await page.reload();
      await compared();
      assert.deepEqual(await brokenRules(page), []);
      const wider = await page.$eval("#compared", (node) => node.scrollWidth - node.clientWidth);
      assert.ok(wider <= 0, `it is ${wider} pixels wider than ${width}`);
      await shot(page, `compare-${theme}-${width}`);
    }
  }
});

test("a run that cannot be read is told", async () => {
  page = await listen(browser);
  await page.goto(`${URL_}compare.html#a=before&b=dreams`);
  await page.waitForSelector("#headline.problem");
  assert.match(await text(page, "#headline"), /dreams/);
  page.troubles = page.troubles.filter((trouble) => !/404/.test(trouble)); // The browser's own note.
});
