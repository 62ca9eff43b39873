// Tests the list of runs and a run's details by keyboard and mouse. The runs are from
// tests/integration/test_run_list.py.
import assert from "node:assert/strict";
import { createServer, request } from "node:http";
import { after, before, beforeEach, test } from "node:test";
import { brokenRules, launch, listen, reloadWithoutPolicy, shot, text } from "./page.mjs";

const URL_ = process.env.STROBE_VIEW;
const HTML = "<img src=x onerror=alert(1)>";
const NEWEST = "2026_11_21_10_00_00";
let browser, page;

before(async () => {
  browser = await launch();
});
after(() => browser.close());
beforeEach(async () => {
  await page?.close();
  page = null; // It is not closed twice when the next one cannot be opened.
  page = await listen(browser);
  await page.goto(URL_);
  await rows(100);
});

const names = () =>
  page.$$eval("#runs tbody tr", (found) =>
    found.map((row) => row.querySelector("a")?.textContent ?? ""),
  );
async function rows(least, most = 1e9) {
  await page.waitForFunction(
    (min, max) => {
      const { length } = document.querySelectorAll("#runs tbody tr");
      return length >= min && length <= max;
    },
    { polling: 20 },
    least,
    most,
  );
}
async function search(words) {
  await page.$eval("#search-text", (input) => (input.value = ""));
  await page.type("#search-text", words);
}
async function details(run) {
  await page.waitForFunction(
    (wanted) =>
      document.getElementById("details-title").textContent === wanted &&
      document.querySelector("#details-body dl, #details-body table"),
    { polling: 20 },
    run,
  );
}

test("several logdirs open with the list, newest first", async () => {
  assert.equal(new URL(page.url()).pathname, "/runs.html");
  const shown = await names();
  assert.equal(shown[0], NEWEST);
  const dated = shown.filter((name) => name.startsWith("2026"));
  assert.deepEqual(dated, [...dated].sort().reverse());
  const headline = await text(page, "#runs tbody tr:first-child .headline");
  assert.equal(headline, `${HTML} holds up 7 others`, "what its report says");
  const sizes = await page.$$eval("#runs tbody tr:first-child td", (cells) =>
    cells.map((cell) => getComputedStyle(cell).fontSize),
  );
  assert.equal(new Set(sizes).size, 1, "it is as large as the rest");
  await shot(page, "runs");
  assert.deepEqual(page.troubles, []);
});

test("more runs come while the user scrolls", async () => {
  const before_ = (await names()).length;
  await page.$eval("#list", (list) => (list.scrollTop = list.scrollHeight));
  await rows(before_ + 1);
  for (let last = 0; last !== (await names()).length;) {
    last = (await names()).length;
    await page.$eval("#list", (list) => (list.scrollTop = list.scrollHeight));
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
  const shown = await names();
  assert.equal(shown.length, 302);
  assert.equal(new Set(shown).size, 302, "each once");
});

test("words are searched in all columns", async () => {
  await search("workerlost");
  await rows(1, 1);
  assert.match(await text(page, "#runs tbody"), /Failed: WorkerLost 1/);
  await search("team-7 job/llm");
  await rows(2, 40);
  await search("no such run");
  await rows(0, 0);
  assert.match(await text(page, "#end"), /No runs match/);
  // A link shows the same, once the last letter has been searched.
  await page.waitForFunction(() => location.hash.includes("q=no+such+run"), { timeout: 30_000 });
});

test("names are text whatever is in them", async () => {
  await search("onerror");
  await rows(1, 1);
  const cells = await page.$$eval("#runs tbody td", (found) => found.map((td) => td.textContent));
  for (const cell of [2, 4, 6, 7]) assert.ok(cells[cell].includes(HTML), cells[cell]);
  await page.click("#runs tbody tr td:nth-child(3)");
  await details(NEWEST);
  await page.waitForFunction(() =>
    document.getElementById("details-body").textContent.includes("> holds up 7 others"),
  );
  assert.equal(await page.$("#runs img, #details img"), null);
  const shown = await text(page, "#details-body");
  assert.ok(shown.split(HTML).length > 4, shown);
  assert.deepEqual(page.troubles, [], "nothing was executed or loaded");
});

test("a run's details tell its workers and what to do", async () => {
  await search("workerlost");
  await rows(1, 1);
  await page.keyboard.press("Enter"); // To the first run,
  await page.keyboard.press("Enter"); // and its details.
  await page.waitForSelector("#details-body table");
  const shown = await text(page, "#details-body");
  assert.match(shown, /Workers: 1 of 2 Ok/);
  assert.match(shown, /w1WorkerLost/, "what needs attention is first");
  assert.match(shown, /strobe\.json/);
  const links = await page.$$eval("#details-body nav a", (found) => found.map((a) => a.href));
  assert.match(links[0], /&tab=overview$/);
  assert.match(links[1], /&tab=timeline$/);
  assert.deepEqual(links.slice(2), ["http://localhost:8791/?run=2026_10_29_10_00_00"]);
  await shot(page, "run");
  await page.keyboard.press("Escape");
  await page.waitForSelector("#details[hidden]");
  assert.equal(
    await page.evaluate(() => document.activeElement.tagName),
    "TR",
    "the keyboard is where it was",
  );
});

/** Answers the page's questions for runs by `answer(request)` instead of the server. */
async function intercept(answer) {
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    if (request.url().includes("/api/catalog")) answer(request);
    else request.continue();
  });
  await page.reload();
}

test("a server that does not answer is told, and found again", async () => {
  let down = true;
  await intercept((request) => (down ? request.abort() : request.continue()));
  const says = (words) =>
    page.waitForFunction((w) => document.getElementById("state").textContent === w, {}, words);
  await says("The server does not answer.");
  down = false;
  await rows(100);
  await says("");
});

test("letters that are typed while an answer comes are searched", async () => {
  let held = null; // The question for "a".
  await intercept((request) => {
    if (request.url().includes("q=a&")) held = request;
    else request.continue();
  });
  await rows(100);
  const asked = page.waitForRequest((request) => request.url().includes("q=a&"));
  await page.type("#search-text", "a");
  await asked;
  await page.type("#search-text", "b");
  await held.continue();
  // Only a search for what was typed writes the link; one that looks for new runs does not.
  await page.waitForFunction(() => location.hash.includes("q=ab"));
});

test("why there is nothing to see is told", async () => {
  const logdir = { logdir: "gs://a", listed: true, busy: false, problem: "", leftOut: 0 };
  let logdirs = [];
  await intercept((request) =>
    request.respond({
      contentType: "application/json",
      body: JSON.stringify({ runs: [], next: "", logdirs }),
    }),
  );
  const says = (part) =>
    page.waitForFunction((w) => document.getElementById("end").textContent.includes(w), {}, part);
  await says("You may see the runs of no namespace");
  logdirs = [logdir];
  await page.reload();
  await says("There are no runs yet");
  await search("x");
  await says("No runs match.");
});

test("the arrows move from run to run, and o opens the timeline", async () => {
  await page.focus("#runs tbody tr");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowUp", "Home"]) await page.keyboard.press(key);
  assert.equal(
    await page.evaluate(() => document.activeElement.querySelector("a").textContent),
    NEWEST,
  );
  await page.keyboard.press("o");
  await page.waitForFunction(() => globalThis.strobe?.painted, { polling: 20 });
  assert.match(decodeURIComponent(page.url()), new RegExp(`/#run=file://.*/${NEWEST}`));
  assert.equal(await page.$eval("#list", (link) => link.hidden), false);
  await page.click("#list");
  await rows(100);
});

test("a link with a run opens its details", async () => {
  await page.click("#runs tbody tr td:nth-child(3)");
  await details(NEWEST);
  const url = page.url();
  await page.goto("about:blank");
  await page.goto(url);
  await details(NEWEST);
});

test("files can be downloaded", async () => {
  await page.click("#runs tbody tr td:nth-child(3)");
  await details(NEWEST);
  const [bytes, said] = await page.evaluate(async () => {
    const file = [...document.querySelectorAll("#details-body a[download]")].find((a) =>
      a.textContent.endsWith(".xplane.pb"),
    );
    const size = file.closest("tr").cells[1].textContent;
    return [(await (await fetch(file.href)).arrayBuffer()).byteLength, size];
  });
  assert.ok(bytes > 1000, said);
});

test("Perfetto's own page gets the traces from the browser", async () => {
  await page.click("#runs tbody tr td:nth-child(3)");
  await details(NEWEST);
  const opened = new Promise((resolve) => browser.once("targetcreated", resolve));
  await page.click("#details-body nav button");
  const perfetto = await (await opened).page();
  await perfetto.waitForFunction(() => document.querySelectorAll(".pf-track").length > 3, {
    polling: 100,
    timeout: 120_000,
  });
  await shot(perfetto, "perfetto");
  await perfetto.close();
  assert.deepEqual(
    page.asked.filter((url) => !url.startsWith(URL_)),
    [],
    "the page asks nobody else",
  );
});

test("all of it works behind a proxy that serves it below a path", async () => {
  const base = "/tools/strobe";
  const proxy = createServer((asked, answered) => {
    if (!asked.url.startsWith(`${base}/`)) return answered.writeHead(404).end();
    const { host, port } = new URL(URL_);
    const path = asked.url.slice(base.length);
    const options = { host: "127.0.0.1", port, path, headers: { ...asked.headers, host } };
    request(options, (answer) => {
      answered.writeHead(answer.statusCode, answer.headers);
      answer.pipe(answered);
    }).end();
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => proxy.on("listening", resolve));
  try {
    const origin = `http://127.0.0.1:${proxy.address().port}`;
    await page.close();
    page = await listen(browser);
    await page.goto(`${origin}${base}/`);
    await rows(100);
    await page.$eval("#runs tbody tr a", (link) => link.click());
    await page.waitForFunction(() => globalThis.strobe?.tab, { polling: 20 });
    await page.click("#tab-timeline");
    await page.waitForFunction(() => globalThis.strobe.painted && globalThis.strobe.missing === 0, {
      polling: 20,
    });
    await page.click("#tab-overview");
    await page.waitForSelector("#overview .headline");
    await page.click("#list");
    await rows(100);
    assert.equal(new URL(page.url()).pathname, `${base}/runs.html`);
    const outside = page.asked.filter((url) => !url.startsWith(`${origin}${base}/`));
    assert.deepEqual(outside, []);
    assert.deepEqual(page.troubles, []);
  } finally {
    proxy.close();
    proxy.closeAllConnections();
  }
});

test("both themes can be read by everybody", async () => {
  await reloadWithoutPolicy(page);
  await rows(100);
  for (const theme of ["light", "dark"]) {
    await page.evaluate((wanted) => (document.documentElement.dataset.theme = wanted), theme);
    assert.deepEqual(await brokenRules(page), []);
  }
});
