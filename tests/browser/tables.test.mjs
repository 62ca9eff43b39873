// Tests the tab with a run's tables against what the server says (tests/integration/test_viewer_tables.py).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { brokenRules, clickButton, copiedBy, listen, shot, startBrowser, text } from "./page.mjs";

const URL_ = process.env.STROBE_VIEW;
const WITNESS = JSON.parse(readFileSync(process.env.STROBE_WITNESS));
const TABLES = ["Kernels", "Operators", "Modules", "Communication", "Memory", "Steps"];
let page;
const browser = await startBrowser(() => page);

async function visit(hash = "#tab=tables", url = URL_) {
  page = await listen(browser);
  await page.goto(`${url}${hash}`);
  await page.waitForSelector("#tables .table-tabs");
}

const shown = (caption) =>
  page.waitForFunction(
    (wanted) => {
      const { caption } = document.querySelector("#tables table") ?? {};
      return caption?.textContent === wanted;
    },
    { polling: 20 },
    caption,
  );

/** The texts of the table's cells, by row; without a column, of all of them. Names are whole. */
const cells = (column = null) =>
  page.evaluate((wanted) => {
    const table = document.querySelector("#tables .sheet table");
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const textOf = (cell) => cell.querySelector(".lead")?.title ?? cell.textContent;
    const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map(textOf));
    return wanted === null ? rows : rows.map((row) => row[heads.indexOf(wanted)]);
  }, column);

const choose = (head) => clickButton(page, "#tables thead", head);

test("every table is a tab, by mouse and by keyboard, and the link keeps it", async () => {
  await visit();
  await shown("Kernels");
  assert.deepEqual(
    await page.$$eval("#tables [role=tab]", (tabs) => tabs.map((tab) => tab.textContent)),
    TABLES,
  );
  await page.focus("#table-kernels");
  await page.keyboard.press("ArrowRight");
  await shown("Operators");
  assert.equal(await page.evaluate(() => document.activeElement.id), "table-operators");
  await page.click("#table-steps");
  await shown("Steps");
  await page.waitForFunction(() => location.hash.includes("table=steps"), { polling: 20 });
  await page.reload();
  await shown("Steps");
  assert.equal(await page.evaluate(() => globalThis.strobe.tab), "tables");
  await page.click("#tab-timeline");
  await page.waitForFunction(() => globalThis.strobe.tab === "timeline", { polling: 20 });
  assert.equal(await page.$eval("#tables", (node) => node.hidden), true);
  await page.keyboard.press("t");
  await page.waitForFunction(() => globalThis.strobe.tab === "tables", { polling: 20 });
});

test("numbers are the server's, sorted by a click on a head", async () => {
  await visit();
  await shown("Kernels");
  const { rows } = WITNESS.kernels.all;
  assert.deepEqual(
    await cells("Name"),
    rows.map(({ name }) => name),
    "the one with the most self time first",
  );
  assert.deepEqual(
    await cells("Count"),
    rows.map(({ count }) => count.toLocaleString("en")),
  );
  await choose("Count");
  const counts = rows.map(({ count }) => count).sort((a, b) => b - a);
  assert.deepEqual(
    await cells("Count"),
    counts.map((count) => count.toLocaleString("en")),
  );
  await choose("Count");
  assert.deepEqual(
    await cells("Count"),
    counts.reverse().map((count) => count.toLocaleString("en")),
  );
  assert.equal(
    await page.$eval("#tables th[aria-sort]", (th) => `${th.textContent} ${th.ariaSort}`),
    "Count ascending",
  );
  await choose("Name");
  const { devicePs } = WITNESS.kernels.all;
  const gpu = rows.filter(({ kind }) => kind === "kernel");
  const told = gpu.filter(({ occupancy }) => occupancy !== null);
  const sum = (of) => told.reduce((all, row) => all + of(row), 0);
  const share = sum(({ occupancy, totalPs }) => occupancy * totalPs) / sum((row) => row.totalPs);
  const kernels = gpu.reduce((all, { selfPs }) => all + selfPs, 0);
  const sentence = await text(page, "#tables .together");
  assert.ok(sentence.includes(`kernel ${((100 * kernels) / devicePs).toFixed(1)} %, `), sentence);
  assert.ok(sentence.endsWith(`; occupancy ${share.toFixed(1)} %`), sentence);
  const names = rows.map(({ name }) => name).sort((a, b) => a.localeCompare(b));
  assert.deepEqual(await cells("Name"), names, "names begin with the first");
});

test("the odd worker is marked, and one worker has its own table", async () => {
  await visit();
  await shown("Kernels");
  const heads = await page.$$eval("#tables thead th", (cells) => cells.map((th) => th.textContent));
  const place = heads.indexOf("Odd one out");
  assert.equal(heads[place - 1], "Maximum");
  const odd = (await cells()).find(([name]) => name === "gemm_0")[place];
  assert.match(odd, /^rank3: .* median /);
  // Without scrolling, on a page of this width.
  const right = await page.$eval(
    `#tables thead th:nth-child(${place + 1})`,
    (th) => th.getBoundingClientRect().right,
  );
  assert.ok(right <= 1280, `it ends at ${right}`);
  const marked = await page.$$eval("#tables td.odd", (cells) => cells.map((td) => td.textContent));
  assert.ok(marked.length >= 1 && marked.every((told) => told.startsWith("rank3: ")), `${marked}`);
  await page.select("#tables select", "1");
  const { rows } = WITNESS.kernels.one;
  await page.waitForFunction(
    (wanted) => document.querySelector("#tables .status").textContent.startsWith(wanted),
    { polling: 20 },
    String(rows.length),
  );
  await page.waitForFunction(() => !document.querySelector("#tables td.odd"), { polling: 20 });
  assert.deepEqual(
    await cells("Name"),
    rows.map(({ name }) => name),
  );
  assert.equal((await cells("Grid"))[rows.findIndex(({ name }) => name === "gemm_2")], "8,1,1");
});

test("a filter leaves the rows that have its text, and they are copied as CSV", async () => {
  await visit();
  await shown("Kernels");
  await page.type("#tables input[type=search]", "GEMM_");
  const kept = WITNESS.kernels.all.rows.filter(({ name }) => name.includes("gemm_"));
  const all = WITNESS.kernels.all.rows.length;
  assert.equal(await text(page, "#tables .status"), `${kept.length} of ${all} rows`);
  assert.deepEqual(
    await cells("Name"),
    kept.map(({ name }) => name),
  );
  const csv = await copiedBy(page, "#tables", "Copy as CSV");
  const [heads, ...lines] = csv.trimEnd().split(/\r?\n/);
  assert.match(heads, /^Name,Kind,Count,Total \(us\),Self \(us\),/);
  assert.equal(lines.length, kept.length);
  const [name, kind, count, total] = lines[0].split(",");
  assert.deepEqual(
    [name, kind, Number(count), Number(total)],
    [kept[0].name, "kernel", kept[0].count, kept[0].totalPs / 1e6],
  );
});

test("many rows come page by page", async () => {
  await visit();
  await shown("Kernels");
  await page.evaluate((answer) => {
    const ask = globalThis.fetch;
    const many = Array.from({ length: 250 }, (_, i) => ({
      ...answer.rows[0],
      name: `=kernel "${i}", <b>`,
      selfPs: 1000 - i,
      devicePs: 0,
      deviceSelfPs: 0,
      odd: null,
    }));
    globalThis.fetch = (url, options) =>
      String(url).includes("table=modules")
        ? Promise.resolve(new Response(JSON.stringify({ ...answer, table: "modules", rows: many })))
        : ask(url, options);
  }, WITNESS.kernels.all);
  await page.click("#table-modules");
  await shown("Modules");
  assert.equal((await cells()).length, 100);
  assert.equal(await text(page, "#tables .pages span"), "Rows 1 to 100 of 250");
  await page.click('#tables [aria-label="Next rows"]');
  await page.click('#tables [aria-label="Next rows"]');
  assert.equal(await text(page, "#tables .pages span"), "Rows 201 to 250 of 250");
  assert.equal(await page.$eval('#tables [aria-label="Next rows"]', (node) => node.disabled), true);
  assert.equal((await cells()).length, 50);
  assert.equal(await page.$("#tables b"), null, "names are text");
});

test("a row leads to its place in the timeline", async () => {
  await visit();
  await shown("Kernels");
  const name = (await cells("Name"))[0];
  await page.click("#tables .lead");
  await page.waitForFunction(() => globalThis.strobe.tab === "timeline", { polling: 20 });
  await page.waitForFunction(
    (wanted) => document.getElementById("find-text").value === wanted,
    { polling: 20 },
    name,
  );
  assert.deepEqual(page.troubles, []);
  await page.close();
  await visit("#tab=tables&table=steps");
  await shown("Steps");
  await page.click("#tables .lead");
  await page.waitForFunction(() => globalThis.strobe.tab === "timeline", { polling: 20 });
});

test("a kernel's details show how it came to run, and can be copied", async () => {
  page = await listen(browser);
  await page.goto(`${URL_}#tab=timeline&find=gemm_2`);
  // The list is drawn again when more is known, also between a look for its button and a click on it.
  await page.waitForFunction(
    () => {
      document.querySelector("#panel-list tbody button")?.click();
      return document.getElementById("panel-title").textContent === "gemm_2";
    },
    { polling: 100 },
  );
  const details = await text(page, "#panel-details");
  assert.match(details, /Launch and call stackLaunchcudaLaunchKernel/);
  assert.match(details, /Operatoraten::op/);
  assert.match(details, /AnnotationProfilerStep#0/);
  const copied = await copiedBy(page, "#panel-details", "Copy as text");
  assert.match(copied, /^gemm_2\nStart: /);
});

test("the memory tab has a curve with units, and what was alive at the peak", async () => {
  await visit("#tab=tables&table=memory", process.env.STROBE_MEMORY);
  await shown("Alive at the peak of Total Allocated");
  const label = await page.$eval("#tables svg", (node) => node.getAttribute("aria-label"));
  assert.match(label, /Total Allocated: [\d.]+ (KiB|MiB|B) at most, at /);
  const { x, y, width } = await page.$eval("#tables svg", (node) => {
    const box = node.getBoundingClientRect();
    return { x: box.x, y: box.y + 80, width: box.width };
  });
  await page.mouse.move(x + width / 2, y);
  assert.match(await text(page, "#tables .memory .readout"), /s: Total Allocated [\d.]+ /);
  await shot(page, "tables-memory");
});

test("what was not recorded is said, with how to record it", async () => {
  await visit("#tab=tables&table=memory");
  await page.waitForFunction(
    () => /--memory/.test(document.querySelector("#table-shown").textContent),
    { polling: 20 },
  );
  await page.click("#table-modules");
  await page.waitForFunction(
    () => /with_stack/.test(document.querySelector("#table-shown").textContent),
    { polling: 20 },
  );
});

test("XProf is a click away if the server knows it", async () => {
  await visit();
  assert.equal(await page.$eval("#xprof", (node) => node.hidden), true);
  await page.close();
  await visit("#tab=tables", process.env.STROBE_LINKED);
  await page.waitForSelector("#xprof[href]");
  const { run } = await page.evaluate(() => globalThis.strobe.description);
  assert.equal(
    await page.$eval("#xprof", (node) => node.href),
    `http://127.0.0.1:9/?${new URLSearchParams({ tool: "overview_page", run })}#profile`,
  );
});

test("all tables can be read by everybody, in both themes and on narrow pages", async () => {
  await visit();
  await page.setBypassCSP(true); // The page's policy would block the test's tool.
  for (const theme of ["light", "dark"]) {
    await page.evaluate((kept) => localStorage.setItem("theme", kept), theme);
    for (const width of [1280, 420]) {
      await page.setViewport({ width, height: 900 });
      for (const name of TABLES) {
        await page.goto("about:blank");
        await page.goto(`${URL_}#tab=tables&table=${name.toLowerCase()}`);
        await page.waitForSelector("#table-shown table, #table-shown .note");
        await page.waitForFunction(
          () => !/Computing/.test(document.querySelector("#table-shown").textContent),
          { polling: 20 },
        );
        assert.deepEqual(await brokenRules(page), [], name);
        const wider = await page.$eval("#tables", (node) => node.scrollWidth - node.clientWidth);
        assert.ok(wider <= 0, `${name} is ${wider} pixels wider than ${width}`);
        if (width === 1280) await shot(page, `tables-${name.toLowerCase()}-${theme}`);
      }
    }
  }
});
