// Measures viewers' pages in Chromium and prints a line of JSON:
//   node bench.mjs paint STROBE TRACE CACHE     from starting `strobe view` until events are drawn
//   node bench.mjs pages URL COUNT              from going to the page until it is drawn, and the same for an empty page
//   node bench.mjs frames URL                   gaps between frames while a key is held for three seconds
//   node bench.mjs arrows URL                   the same with flow events switched on
//   node bench.mjs perfetto WEB_DIST TRACE      Perfetto's page: from handing it a file until tracks are drawn
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { idle, launch, open } from "./page.mjs";

const [what, ...given] = process.argv.slice(2);
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const tell = (result) => console.log(JSON.stringify(result));

async function paint(browser, [strobe, trace, cache]) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1600, height: 900 });
  const began = performance.now();
  const server = spawn(
    "setpriv",
    ["--pdeathsig", "KILL", strobe, "view", trace, "--cache", cache, "--listen", "127.0.0.1:0"],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  try {
    const url = await new Promise((resolve) =>
      server.stdout.on("data", (data) => resolve(/http:\S+/.exec(data)[0])),
    );
    await page.goto(url, { waitUntil: "domcontentloaded" });
    await page.waitForFunction(() => globalThis.strobe?.painted, {
      polling: "raf",
      timeout: 600_000,
    });
    tell({ seconds: (performance.now() - began) / 1000 });
  } finally {
    server.kill();
  }
}

/** Goes to the viewer's page and to one of as many bytes that does nothing, in turns. */
async function pages(browser, [url, count]) {
  const ours = [];
  const empty = [];
  let bytes = 0;
  const server = createServer((_, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end(
      `<!doctype html><title>empty</title><script>requestAnimationFrame(() =>
      (globalThis.strobe = { painted: true }))</script><!--${"x".repeat(bytes)}-->`,
    );
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.on("listening", resolve));
  try {
    // The first round finds a browser that has just started.
    for (let round = 0; round <= Number(count); ++round) {
      const drawn = await visit(browser, url);
      bytes = drawn.bytes;
      const blank = await visit(browser, `http://127.0.0.1:${server.address().port}/`);
      if (round === 0) continue;
      ours.push(drawn.seconds);
      empty.push(blank.seconds);
    }
    tell({ ours, empty, bytes });
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

/** Goes to a page in a new tab: the seconds until it is drawn, and the bytes of all that it loaded. */
async function visit(browser, url) {
  const page = await browser.newPage();
  await page.setViewport({ width: 1600, height: 900 });
  await page.setCacheEnabled(false);
  const began = performance.now();
  await page.goto(url, { waitUntil: "domcontentloaded" });
  await page.waitForFunction(() => globalThis.strobe?.painted, {
    polling: "raf",
    timeout: 600_000,
  });
  const seconds = (performance.now() - began) / 1000;
  const bytes = await page.evaluate(() =>
    performance.getEntries().reduce((sum, entry) => sum + (entry.decodedBodySize ?? 0), 0),
  );
  await page.close();
  return { seconds, bytes };
}

async function arrows(browser, [url]) {
  const page = await timeline(browser, url);
  await page.keyboard.press("v");
  await page.waitForFunction(() => globalThis.strobe.state.links.bundles > 0);
  await idle(page);
  const links = await page.evaluate(() => globalThis.strobe.state.links);
  tell({ ...links, ...(await gaps(page)) });
}

async function frames(browser, [url]) {
  tell(await gaps(await timeline(browser, url)));
}

async function timeline(browser, url) {
  const page = await open(browser, url);
  await page.setViewport({ width: 1600, height: 900 });
  await idle(page);
  return page;
}

/** Holds W, S, A and D for three seconds each. */
async function gaps(page) {
  await page.mouse.move(900, 400);
  const all = [];
  for (const key of ["w", "s", "a", "d"]) {
    await page.keyboard.press("0");
    if (key !== "w") {
      // Zooms in first, so that the key has an effect.
      await page.keyboard.down("w");
      await sleep(800);
      await page.keyboard.up("w");
    }
    await idle(page);
    await page.evaluate(() => {
      globalThis.gaps = [];
      let last = performance.now();
      const note = (now) => {
        globalThis.gaps.push(now - last);
        last = now;
        globalThis.noting = requestAnimationFrame(note);
      };
      globalThis.noting = requestAnimationFrame(note);
    });
    await page.keyboard.down(key);
    await sleep(3000);
    await page.keyboard.up(key);
    all.push(
      ...(await page.evaluate(
        () => (cancelAnimationFrame(globalThis.noting), globalThis.gaps.slice(2)),
      )),
    );
  }
  all.sort((a, b) => a - b);
  return {
    frames: all.length,
    p50: all[all.length >> 1],
    p95: all[Math.floor(all.length * 0.95)],
    worst: all.at(-1),
  };
}

async function perfetto(browser, [dist, trace]) {
  const types = {
    html: "text/html",
    js: "text/javascript",
    css: "text/css",
    wasm: "application/wasm",
    json: "application/json",
  };
  const server = createServer((request, response) => {
    const path = new URL(request.url, "http://x").pathname;
    try {
      const body = readFileSync(join(dist, path === "/" ? "index.html" : path));
      response.setHeader("Content-Type", types[path.split(".").at(-1)] ?? "text/html");
      response.end(body);
    } catch {
      response.statusCode = 404;
      response.end();
    }
  }).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.on("listening", resolve));
  try {
    const page = await browser.newPage();
    await page.setViewport({ width: 1600, height: 900 });
    await page.goto(`http://127.0.0.1:${server.address().port}/`, {
      waitUntil: "domcontentloaded",
    });
    const input = await page.waitForSelector("input.trace_file");
    await page.keyboard.press("Escape");
    await sleep(1000);
    const began = performance.now();
    await input.uploadFile(trace);
    await page.waitForFunction(() => document.querySelectorAll(".pf-track").length > 3, {
      polling: "raf",
      timeout: 300_000,
    });
    tell({ seconds: (performance.now() - began) / 1000 });
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

const browser = await launch();
try {
  await { arrows, pages, paint, frames, perfetto }[what](browser, given);
} finally {
  await browser.close();
}
