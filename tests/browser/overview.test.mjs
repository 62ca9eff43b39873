// Tests the overview of a run against what `strobe report --output json` says of the same traces.
// The runs are from tests/support/straggler_run.py.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { brokenRules, listen, reloadWithoutPolicy, shot, startBrowser, text } from "./page.mjs";

const URL_ = process.env.STROBE_VIEW;
const WITNESS = JSON.parse(readFileSync(process.env.STROBE_WITNESS));
const SLOW = "worker-2";
let page;
const browser = await startBrowser(() => page);

async function visit(hash = "") {
  page = await listen(browser);
  await page.goto(`${URL_}${hash}`);
}

const tab = () => page.evaluate(() => globalThis.strobe?.tab);
const shown = () => page.waitForSelector("#overview .headline");
const hasTab = (name) =>
  page.waitForFunction((wanted) => globalThis.strobe?.tab === wanted, { polling: 20 }, name);
const painted = () => page.waitForFunction(() => globalThis.strobe?.painted, { polling: 20 });
const rested = () => page.waitForFunction(() => globalThis.strobe.idle, { polling: 20 });

/** The rows of a table, as texts, or as the labels of cells without a text. */
const cells = (caption) =>
  page.evaluate((wanted) => {
    const tables = [...document.querySelectorAll("#overview table")];
    const found = tables.find((table) => table.caption.textContent === wanted);
    return [...found.tBodies[0].rows].map((row) =>
      [...row.cells].map(
        (cell) => cell.textContent || cell.firstElementChild?.getAttribute("aria-label") || "",
      ),
    );
  }, caption);

/** A duration as the page writes it, in ns. */
function nanoseconds(written) {
  const [, value, unit] = /^([\d.]+) (s|ms|µs|ns)/.exec(written);
  return Number(value) * { s: 1e9, ms: 1e6, µs: 1e3, ns: 1 }[unit];
}

function near(a, b) {
  assert.ok(Math.abs(a - b) <= 1e-3 * Math.abs(b) + 1000, `${a} is not ${b}`);
}

/** The time of a worker's step in the timeline. */
const stepTime = (number, worker) =>
  page.evaluate(
    async (wanted, name) => {
      const { run } = globalThis.strobe.description;
      const { steps } = await (await fetch(`/api/steps?${new URLSearchParams({ run })}`)).json();
      const index = globalThis.strobe.description.workers.findIndex((each) => each.name === name);
      const step = steps.find((each) => each.number === wanted);
      return step.workers.find((part) => part.worker === index);
    },
    number,
    worker,
  );

async function showsStep(number, worker) {
  await hasTab("timeline");
  const { beginPs, endPs } = await stepTime(number, worker);
  await page.waitForFunction(
    (begin, end) => {
      const { view } = globalThis.strobe;
      const margin = (end - begin) * 0.06;
      return view.begin < begin && view.end > end && view.begin > begin - margin;
    },
    { polling: 20 },
    beginPs,
    endPs,
  );
  await showsWorker(worker);
}

/** The worker's rows begin at the top, as far as there are rows below them to fill the page. */
async function showsWorker(worker) {
  await page.waitForFunction(
    (name) => {
      const { description, placeOf } = globalThis.strobe;
      const index = description.workers.findIndex((each) => each.name === name);
      const row = description.rows.findIndex((each) => each.worker === index);
      return placeOf(row, 0) !== null;
    },
    { polling: 20 },
    worker,
  );
}

test("a run with a report begins with it, and says what strobe report says", async () => {
  await visit();
  await shown();
  await hasTab("overview");
  const { stragglers } = WITNESS;
  assert.equal(await text(page, "#overview .headline"), stragglers.headline);
  assert.match(stragglers.headline, /^rank 2 holds up 3 others by .*: compute$/);
  const [late] = await cells("Late workers");
  const [straggler] = stragglers.stragglers;
  assert.equal(late[0], SLOW);
  assert.equal(late[1], "others wait for it");
  near(nanoseconds(late[2]), straggler.longerNs);
  near(nanoseconds(late[2].split(" ± ")[1]), straggler.errorNs);
  assert.match(late[4], /^compute \d/);
  near(nanoseconds(late[5]), straggler.heldUp.ns);
  const times = await cells("Where the time went");
  assert.deepEqual(
    times.map(([name]) => name),
    WITNESS.workers.map(({ worker }) => worker),
  );
  times.forEach(([, bar, waited, made], i) => {
    const { time } = WITNESS.workers[i];
    const compute = (100 * time.computeNs) / time.spanNs;
    assert.ok(Math.abs(Number(/Compute: ([\d.]+) %/.exec(bar)[1]) - compute) <= 0.5, bar);
    const waits = stragglers.waits[i];
    if (waits.waitedNs > 0) near(nanoseconds(waited), waits.waitedNs);
    if (waits.madeWaitNs > 0) near(nanoseconds(made), waits.madeWaitNs);
  });
  const marked = await page.$$eval("#overview .times tr.late", (found) =>
    found.map((line) => line.cells[0].textContent),
  );
  assert.deepEqual(marked, [SLOW]);
  const [call] = await cells("Collectives");
  assert.equal(call[0], stragglers.collectives[0].name);
  near(nanoseconds(call[3]), stragglers.collectives[0].waitedNs);
  assert.equal(call[4], SLOW);
  const figures = await text(page, "#overview .figures");
  assert.match(figures, /Workers compared4/);
  assert.match(figures, /Devices busy\d+ %of the recorded time/);
  assert.match(figures, /mean of 11 steps/);
  const ops = await cells("Operations");
  assert.ok(
    ops.some(([name]) => name.includes("<img src=x onerror=alert(1)>")),
    "a name is text",
  );
  assert.equal(await page.$("#overview img"), null);
});

test("the answer leads to the step in which the straggler was latest", async () => {
  await visit();
  await shown();
  await painted();
  await page.click("#overview .headline a");
  await showsStep(WITNESS.stragglers.stragglers[0].latestStep, SLOW);
});

test("what to do is said with the place where most is lost", async () => {
  await visit();
  await shown();
  await painted();
  const [advice] = WITNESS.stragglers.advice;
  const told = await text(page, "#overview .advice li");
  assert.ok(told.startsWith(`${Math.round(100 * advice.share)} % ${advice.what}`), told);
  assert.ok(told.includes(advice.next), told);
  await page.click("#overview .advice a");
  await showsStep(advice.step, advice.worker);
});

test("the tabs are changed by keyboard and mouse, and the page's link keeps them", async () => {
  await visit();
  await shown();
  await painted();
  await page.focus("#tab-overview");
  await page.keyboard.press("ArrowRight");
  await hasTab("timeline");
  assert.equal(await page.evaluate(() => document.activeElement.id), "tab-timeline");
  assert.equal(await page.$eval("#overview", (node) => node.hidden), true);
  assert.equal(
    await page.$eval("#tab-timeline", (node) => node.getAttribute("aria-selected")),
    "true",
  );
  await page.waitForFunction(() => location.hash.includes("t="));
  await page.keyboard.press("o");
  await hasTab("overview");
  await page.waitForFunction(() => location.hash.includes("tab=overview"));
  // The timeline's keys do nothing here.
  await page.focus("#overview");
  const before_ = await page.evaluate(() => globalThis.strobe.view);
  await page.keyboard.press("w");
  await page.keyboard.press("ArrowRight");
  assert.deepEqual(await page.evaluate(() => globalThis.strobe.view), before_);
  await page.reload();
  await shown();
  assert.equal(await tab(), "overview");
  await page.click("#tab-timeline");
  await page.waitForFunction(() => location.hash.includes("t="));
  await page.reload();
  await painted();
  await rested();
  assert.equal(await tab(), "timeline", "a link that names a time shows it");
});

test("a worker that is named leads to its rows", async () => {
  await visit("#run=stored");
  await shown();
  await painted();
  const [link] = await page.$$("#overview td a");
  assert.equal(await link.evaluate((node) => node.textContent), SLOW);
  const href = await link.evaluate((node) => node.href);
  // Its numbers lead there, too.
  const loss = await page.$eval(
    "#overview .times tbody tr:nth-child(3) td:last-child a",
    (node) => node.href,
  );
  assert.equal(loss, href);
  await link.click();
  await hasTab("timeline");
  await showsWorker(SLOW);
  assert.equal(await page.evaluate(() => document.activeElement.id), "canvas");
  // This link opens the place on a page of its own.
  await page.close();
  await visit(`#${href.split("#")[1]}`);
  await painted();
  await showsWorker(SLOW);
  assert.equal(await tab(), "timeline");
});

test("cells of the map tell waits with their errors and lead to the step", async () => {
  await visit();
  await shown();
  await painted();
  const { waitMap } = WITNESS.stragglers;
  await page.focus('#overview canvas[aria-label^="Waits of 4 workers in 11 steps"]');
  for (const key of ["ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown"])
    await page.keyboard.press(key);
  const told = () =>
    page.evaluate(() => document.activeElement.closest(".chart").lastElementChild.textContent);
  const [, name, step, wait, error] = /^(.+), step (\d+): waited (.+) ± (.+)\.$/.exec(await told());
  assert.deepEqual([name, Number(step)], [waitMap.workers[1], waitMap.steps[2]]);
  near(nanoseconds(wait), waitMap.waitedNs[1][2]);
  near(nanoseconds(error), waitMap.errorNs[1][2]);
  assert.equal(await text(page, "#announce"), await told());
  await page.keyboard.press("Enter");
  await showsStep(waitMap.steps[2], waitMap.workers[1]);
});

test("a bar of the steps leads to the step of the worker that took longest", async () => {
  await visit();
  await shown();
  await painted();
  const canvas = await page.$('#overview canvas[aria-label^="Durations"]');
  await canvas.evaluate((node) => node.scrollIntoView());
  const box = await canvas.boundingBox();
  const scale = 64; // Pixels before the first bar.
  await page.mouse.click(box.x + scale + ((box.width - scale) * 4.5) / 11, box.y + box.height / 2);
  await showsStep(4, SLOW);
});

test("operations and collectives are found in the timeline", async () => {
  await visit();
  for (const caption of ["Operations", "Collectives"]) {
    await page.goto("about:blank");
    await page.goto(URL_);
    await shown();
    await painted();
    const link = await page.waitForSelector(
      `#overview ::-p-xpath(//table[caption='${caption}']//a[contains(., 'AllReduce')])`,
    );
    await link.click();
    await hasTab("timeline");
    await page.waitForFunction(() =>
      document.getElementById("find-count").textContent.startsWith("48 events"),
    );
  }
});

test("a link to a step opens the timeline there", async () => {
  await visit(`#run=stored&worker=worker-1&step=7`);
  await painted();
  await showsStep(7, "worker-1");
  await page.close();
  await visit(`#run=stored&worker=nobody&step=7`);
  await painted();
  await page.waitForFunction(() =>
    document.getElementById("notice").textContent.includes("There is no trace of nobody here."),
  );
});

test("a stored report is named as such, and markup in it is text", async () => {
  await visit("#run=hostile");
  await shown();
  assert.match(await text(page, "#overview"), /The report that was stored with the capture/);
  const names = (await cells("Where the time went")).map(([name]) => name);
  assert.ok(
    names.some((name) => name.startsWith("<img src=x onerror")),
    names.join(),
  );
  assert.equal(await page.$("#overview img, #overview script"), null);
});

test("a report that is none is told, and replaced", async () => {
  await visit("#run=broken&tab=overview");
  await shown();
  assert.equal(
    await text(page, "#overview .problem"),
    "report.json cannot be shown: report.stragglers.stragglers[0].longerNs is not a number up to 1e18",
  );
  assert.match(await text(page, "#overview"), /Computed from the traces/);
  assert.equal(await text(page, "#overview .headline"), WITNESS.stragglers.headline);
});

test("of 2,000 workers those are shown that matter, and what is not decidable is told", async () => {
  await visit("#run=large");
  await shown();
  const times = await cells("Where the time went");
  assert.equal(times.length, 40);
  assert.equal(times.at(-1)[0], "trainer-1999");
  const all = await text(page, "#overview");
  assert.match(all, /and 1,960 more workers\./);
  assert.match(all, /and 26 more late workers\./);
  assert.match(all, /and 12 more missing workers\./);
  const late = (await cells("Late workers")).map(([, verdict]) => verdict);
  assert.equal(late[1], "nobody waits for it");
  assert.match(late[2], /^not decidable who waits: clocks are known only within 2 ms/);
  assert.match(late[3], /^not decidable who waits: clocks are not measured/);
  await page.focus('#overview canvas[aria-label^="Waits"]');
  await page.keyboard.press("ArrowDown");
  const told = () => text(page, "#announce");
  assert.match(
    await told(),
    /^trainer-0, step 0: waited .* \(clocks are not measured\): not decidable/,
  );
  for (let i = 0; i < 7; ++i) await page.keyboard.press("ArrowDown");
  assert.match(await told(), /^trainer-7, step 0: .* ± 4 ms: not decidable/);
});

test("the whole report is printed, and nothing else", async () => {
  await visit();
  await shown();
  const sizes = () =>
    page.$eval("#overview", ({ scrollHeight, clientHeight }) => [scrollHeight, clientHeight]);
  const [whole, seen] = await sizes();
  assert.ok(whole > seen, "on the screen it scrolls");
  await page.emulateMediaType("print");
  const [printed, all] = await sizes();
  assert.ok(printed <= all, `${printed} are more than ${all} pixels`);
  for (const part of ["header", "#timeline"])
    assert.equal(await page.$eval(part, (node) => getComputedStyle(node).display), "none");
});

test("both themes and narrow pages can be read by everybody", async () => {
  // Named, because a run begins with its timeline if its report comes late.
  await visit("#run=straggler&tab=overview");
  await reloadWithoutPolicy(page);
  await shown();
  for (const theme of ["light", "dark"]) {
    for (const [run, width] of [
      ["straggler", 1280],
      ["straggler", 800],
      ["straggler", 420],
      ["large", 1280],
    ]) {
      await page.setViewport({ width, height: 900 });
      await page.evaluate((kept) => localStorage.setItem("theme", kept), theme);
      await page.goto("about:blank");
      await page.goto(`${URL_}#run=${run}&tab=overview`);
      await shown();
      await painted();
      assert.deepEqual(await brokenRules(page), [], `${theme} ${run} ${width}`);
      const overflow = await page.$eval("#overview", (node) => node.scrollWidth - node.clientWidth);
      assert.ok(overflow <= 0, `${run} is ${overflow} pixels wider than ${width}`);
      await shot(page, `overview-${run}-${width}-${theme}`);
      await page.$eval('#overview canvas[aria-label^="Durations"]', (node) =>
        node.scrollIntoView(),
      );
      await shot(page, `overview-charts-${run}-${width}-${theme}`);
    }
  }
});
