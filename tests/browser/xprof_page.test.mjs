// Tests that our server's answers have the form of XProf's: XProf's own trace viewer page (V1, its files
// are taken from the wheel) gets all data from our server and must draw it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, shot } from "./page.mjs";

const base = process.env.STROBE_VIEW.replace(/\/$/, "");
const FILES = "/data/plugin/profile/";
let browser;
before(async () => {
  browser = await launch();
});
after(() => browser.close());

test("draws the same rows", async () => {
  const { rows, workers } = await (await fetch(`${base}/api/run`)).json();
  const run = (await (await fetch(`${base}/api/runs`)).json()).runs[0];
  const page = await browser.newPage();
  const foreign = [];
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    const url = new URL(request.url());
    const name = url.pathname.startsWith(FILES) && url.pathname.slice(FILES.length);
    if (url.origin !== base && url.protocol.startsWith("http")) foreign.push(request.url());
    if (/^trace_viewer_index\.(html|js)$/.test(name || ""))
      request.respond({
        contentType: name.endsWith("html") ? "text/html" : "text/javascript",
        body: readFileSync(join(process.env.STROBE_XPROF, name)),
      });
    else request.continue();
  });
  const data = `${FILES}data?run=${run}&tag=trace_viewer@&hosts=${workers.map((worker) => worker.name).join(",")}`;
  await page.goto(
    `${base}${FILES}trace_viewer_index.html?is_streaming=true&is_oss=true&trace_data_url=${encodeURIComponent(data)}`,
  );
  // The texts of the page's components are in shadow trees.
  const texts = () =>
    page.evaluate(() => {
      const found = [];
      const walk = (node) => {
        if (node.nodeType === Node.TEXT_NODE && node.textContent.trim())
          found.push(node.textContent.trim());
        if (node.shadowRoot) walk(node.shadowRoot);
        for (const child of node.childNodes ?? []) walk(child);
      };
      walk(document);
      return found;
    });
  let shown = [];
  for (let i = 0; i < 150 && !shown.some((text) => text.includes("XLA Ops")); ++i) {
    await new Promise((resolve) => setTimeout(resolve, 200));
    shown = await texts();
  }
  await shot(page, "xprof");
  const all = shown.join("\n");
  for (const row of rows.filter((candidate) => candidate.kind === "spans"))
    assert.ok(all.includes(row.name), `${row.name} is not drawn`);
  for (const worker of workers)
    assert.ok(all.includes(`${worker.name} /device:TPU:0`), worker.name);
  assert.deepEqual(foreign, []);
});
