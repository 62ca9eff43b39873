// Helpers that open the viewer's page in Chromium and control it.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { after, afterEach } from "node:test";

const require = createRequire(join(resolve(process.env.STROBE_BROWSER), "package.json"));
const puppeteer = require("puppeteer-core");
const AXE = require.resolve("axe-core/axe.min.js");

const SHOTS = process.env.STROBE_SHOTS;
mkdirSync(SHOTS, { recursive: true });

/** Starts a browser that can connect only to this machine. */
export function launch(...flags) {
  return puppeteer.launch({
    pipe: true, // Chromium ends with whoever holds the other end, also one that was killed.
    executablePath: process.env.STROBE_CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-dev-shm-usage",
      "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
      "--font-render-hinting=none",
      "--force-device-scale-factor=1",
      ...flags,
    ],
    defaultViewport: { width: 1280, height: 800 },
  });
}

/** A browser for the tests of a file, each of which opens one page, pageOf(), that has no errors. */
export async function startBrowser(pageOf) {
  const browser = await launch();
  after(() => browser.close());
  afterEach(async () => {
    const page = pageOf();
    await page.close();
    assert.deepEqual(page.troubles, []);
  });
  return browser;
}

/** A new page that collects its errors in `troubles` and the URLs of its requests in `asked`. */
export async function listen(browser) {
  const page = await browser.newPage();
  page.setDefaultNavigationTimeout(120_000); // CI runs suites and compilers at the same time.
  page.troubles = [];
  page.asked = [];
  page.on("pageerror", (error) => page.troubles.push(error.message));
  page.on("console", (message) => message.type() === "error" && page.troubles.push(message.text()));
  page.on("dialog", (dialog) => {
    page.troubles.push(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  // Attaches to the page's web workers too, so that their requests are seen.
  const session = await page.createCDPSession();
  await session.send("Target.setAutoAttach", {
    autoAttach: true,
    waitForDebuggerOnStart: false,
    flatten: true,
  });
  page.on("request", (request) => page.asked.push(request.url()));
  page.on("workercreated", (worker) =>
    worker.client?.on?.("Network.requestWillBeSent", ({ request }) => page.asked.push(request.url)),
  );
  return page;
}

/** Opens a timeline, also of a run that begins with its overview. */
export async function open(browser, url) {
  const page = await listen(browser);
  await page.goto(url.includes("#") ? `${url}&tab=timeline` : `${url}#tab=timeline`);
  await idle(page);
  return page;
}

export async function idle(page) {
  await page.waitForFunction(() => globalThis.strobe?.idle && globalThis.strobe.painted, {
    polling: 20,
  });
}

/** Sets the window's size, and returns once the page has noticed. */
export async function resize(page, width, height) {
  await page.setViewport({ width, height });
  await page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  );
  await idle(page);
}

export async function shot(page, name) {
  await page.screenshot({ path: join(SHOTS, `${name}.png`) });
}

export const view = (page) => page.evaluate(() => globalThis.strobe.view);
export const rowNamed = (page, name, worker = 0) =>
  page.evaluate(
    (wanted, of) =>
      globalThis.strobe.description.rows.findIndex(
        (row) => row.name === wanted && row.worker === of,
      ),
    name,
    worker,
  );

/**
 * Has the page get this answer for all questions to this part of the API. Here and where questions
 * are held it is done in the page, not by Puppeteer's interception of requests: when Chromium tells
 * of a web worker's request after it has paused it, Puppeteer lets it go on in the wrong session,
 * and it never does.
 */
export async function refuse(page, name, body) {
  await page.evaluate(
    (refused, text) => {
      const ask = globalThis.fetch;
      globalThis.fetch = (url, options) =>
        new URL(url, globalThis.location).pathname === refused
          ? Promise.resolve(new Response(text, { status: 500 }))
          : ask(url, options);
    },
    `/api/${name}`,
    body,
  );
}

/** The point on the page at which a row's track shows the time `ps`. */
export async function pointOf(page, row, track, ps) {
  return page.evaluate(
    (r, t, at) => {
      const box = document.getElementById("canvas").getBoundingClientRect();
      return {
        x: box.left + globalThis.strobe.x(at),
        y: box.top + globalThis.strobe.placeOf(r, t) + 7,
      };
    },
    row,
    track,
    ps,
  );
}

export async function text(page, selector) {
  return page.$eval(selector, (node) => node.textContent);
}

export async function press(page, ...keys) {
  for (const key of keys) await page.keyboard.press(key);
  await idle(page);
}

export async function hold(page, key, milliseconds) {
  await page.keyboard.down(key);
  await new Promise((resolve) => setTimeout(resolve, milliseconds));
  await page.keyboard.up(key);
  await idle(page);
}

/** Clicks the button whose text begins so, in a part of the page. */
export async function clickButton(page, part, words) {
  await page.$eval(
    part,
    (node, wanted) => {
      const buttons = [...node.querySelectorAll("button")];
      buttons.find((button) => button.textContent.startsWith(wanted)).click();
    },
    words,
  );
}

/** What a button copies, once its part of the page says that it has done so. */
export async function copiedBy(page, part, words) {
  const allowed = ["clipboard-read", "clipboard-sanitized-write"];
  await page.browserContext().overridePermissions(new URL(page.url()).origin, allowed);
  await page.bringToFront();
  await clickButton(page, part, words);
  await page.waitForFunction(
    (selector) => /copied/i.test(document.querySelector(selector).textContent),
    { polling: 20 },
    part,
  );
  return page.evaluate(() => navigator.clipboard.readText());
}

/** Loads a page anew without its policy, which would block what brokenRules() needs. */
export async function reloadWithoutPolicy(page) {
  await page.setBypassCSP(true);
  await page.reload();
}

/** The rules of accessibility that the page, or a part of it, breaks, and where. */
export async function brokenRules(page, part = "html") {
  if (!(await page.evaluate(() => Boolean(globalThis.axe)))) await page.addScriptTag({ path: AXE });
  const { violations } = await page.evaluate((of) => globalThis.axe.run(of), part);
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ")}`);
}

/** Drags with the left button from one point of the page to another. */
export async function drag(page, from, to) {
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  await page.mouse.move(to.x, to.y, { steps: 6 });
  await page.mouse.up();
}

/** {at(x, y)}: the colours, [red, green, blue], of a screenshot. */
export async function pixelsOf(browser, png) {
  // A page of its own, because the viewer's policy allows no images from elsewhere.
  const page = await browser.newPage();
  try {
    const { width, data } = await page.evaluate(async (base64) => {
      const image = new Image();
      image.src = `data:image/png;base64,${base64}`;
      await image.decode();
      const canvas = new OffscreenCanvas(image.width, image.height);
      const context = canvas.getContext("2d");
      context.drawImage(image, 0, 0);
      const pixels = context.getImageData(0, 0, image.width, image.height).data;
      let text = "";
      for (let i = 0; i < pixels.length; i += 32768)
        text += String.fromCharCode(...pixels.subarray(i, i + 32768));
      return { width: image.width, data: btoa(text) };
    }, Buffer.from(png).toString("base64"));
    const pixels = Buffer.from(data, "base64");
    const at = (x, y) => {
      const first = 4 * (Math.floor(y) * width + Math.floor(x));
      return [...pixels.subarray(first, first + 3)];
    };
    return { at };
  } finally {
    await page.close();
  }
}
