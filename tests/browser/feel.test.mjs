// Tests how the page feels: sizes, places, colours, and what stays in sight. The traces are from
// tests/support/traces.py.
import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";
import {
  brokenRules,
  drag,
  hold,
  idle,
  launch,
  open,
  pixelsOf,
  pointOf,
  press,
  refuse,
  reloadWithoutPolicy,
  resize,
  rowNamed,
  shot,
  text,
  view,
} from "./page.mjs";

const URL_ = process.env.STROBE_VIEW;
const MS = 1e9;
const ONE_WORKER = "2026_11_20_10_00_00";
const WITH_WINDOW = "2026_11_19_10_00_00";
let browser, page;

before(async () => {
  browser = await launch();
});
after(() => browser.close());
beforeEach(async () => {
  await page?.close();
  page = null; // It is not closed twice when the next one cannot be opened.
  page = await open(browser, URL_);
  // What an earlier test has left behind.
  if (await page.evaluate(() => localStorage.length)) {
    await page.evaluate(() => localStorage.clear());
    await reopen();
  }
});

const near = (a, b, by) => assert.ok(Math.abs(a - b) <= by, `${a} is not within ${by} of ${b}`);
const state = (name) => page.evaluate((of) => globalThis.strobe.state[of], name);
const marks = () => state("marks");
const boxOf = (selector) =>
  page.$eval(selector, (node) => {
    const { left, top, right, bottom, width, height } = node.getBoundingClientRect();
    return { left, top, right, bottom, width, height };
  });
const selected = (name) =>
  page.waitForFunction((of) => globalThis.strobe.state.selected[0]?.name === of, {}, name);

async function reopen(url = URL_) {
  await page.close();
  page = null;
  page = await open(browser, url);
}

/** Holds back all questions to these parts of the API until release() is called. */
async function holdQuestions(...names) {
  await page.evaluate((held) => {
    const ask = globalThis.fetch;
    const gate = { holding: true, held: [], answered: [] };
    gate.opened = new Promise((resolve) => (gate.open = resolve));
    globalThis.gate = gate;
    globalThis.fetch = (url, options) => {
      const { pathname } = new URL(url, globalThis.location);
      if (!gate.holding || !held.includes(pathname.replace("/api/", ""))) return ask(url, options);
      gate.held.push(pathname);
      const answer = gate.opened.then(() => ask(url, options));
      gate.answered.push(answer);
      return answer;
    };
  }, names);
  return {
    has: (name) => page.evaluate((of) => globalThis.gate.held.includes(`/api/${of}`), name),
    stop: () => page.evaluate(() => (globalThis.gate.holding = false)),
    async release() {
      await page.evaluate(async () => {
        globalThis.gate.holding = false;
        globalThis.gate.open();
        await Promise.allSettled(globalThis.gate.answered);
        // What the page does with the answers comes before what it does with this one.
        await (await fetch("/healthz")).text();
      });
      await idle(page);
    },
  };
}

async function until(isSo) {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 20));
}

async function showRun(name) {
  await page.select("#run", name);
  await page.waitForFunction(
    (of) => globalThis.strobe.description.run === of && globalThis.strobe.idle,
    {},
    name,
  );
}

async function clickAt(name, track, ps, worker = 0) {
  const point = await pointOf(page, await rowNamed(page, name, worker), track, ps);
  await page.mouse.click(point.x, point.y);
  return point;
}

const textIs = (id, wanted) =>
  page.waitForFunction(
    (of, expected) => document.getElementById(of).textContent === expected,
    {},
    id,
    wanted,
  );

/** Drags a box around the kernels of a time. */
async function boxOver(from, to) {
  const row = await rowNamed(page, "Stream #13(Compute)");
  const a = await pointOf(page, row, 0, from);
  const b = await pointOf(page, row, 0, to);
  await drag(page, { x: a.x, y: a.y - 4 }, { x: b.x, y: b.y + 4 });
}

/** Drags with the left button over a row's first track. */
async function dragTimes(name, from, to, by = {}) {
  const row = await rowNamed(page, name);
  const a = await pointOf(page, row, 0, from);
  const b = await pointOf(page, row, 0, to);
  await drag(page, { x: a.x + (by.from ?? 0), y: a.y }, { x: b.x + (by.to ?? 0), y: b.y });
}

// ---- What is clicked stays in sight -------------------------------------------------------------

test("the pane does not hide what was clicked in the lower part", async () => {
  const canvas = await boxOf("#canvas");
  const point = await clickAt("python", 0, 12 * MS, 1);
  assert.ok(point.y > canvas.top + 0.66 * canvas.height, "the click was in the lower third");
  await selected("train");
  await idle(page);
  const row = await rowNamed(page, "python", 1);
  const now = await pointOf(page, row, 0, 12 * MS);
  const after_ = await boxOf("#canvas");
  assert.ok(after_.height < canvas.height, "the pane has taken room");
  assert.ok(now.y > after_.top + 38 && now.y + 8 < after_.bottom, "the event is seen");
  await shot(page, "clicked-low");
  // It also holds for a larger pane, and for one that is made larger.
  await page.focus("#panel-size");
  await press(page, "End");
  const tight = await boxOf("#canvas");
  const still = await pointOf(page, row, 0, 12 * MS);
  assert.ok(still.y > tight.top + 38 && still.y + 8 < tight.bottom, "it is seen in a small canvas");
});

test("the header has one line at 1,280 pixels, also while something is found", async () => {
  const height = () => page.$eval("header", (node) => node.offsetHeight);
  assert.ok((await page.$eval("#run", (list) => list.value)).length > 15, "a name of usual length");
  const before_ = await height();
  assert.ok(before_ < 40, `${before_} pixels`);
  await page.type("#find-text", "kernel_1");
  await page.waitForFunction(() => document.getElementById("find-count").textContent !== "");
  await idle(page);
  assert.equal(await height(), before_);
});

test("the timeline leads to the page of Perfetto", async () => {
  assert.ok(await page.$eval("#perfetto", (button) => button.checkVisibility()));
  await page.evaluate(() => {
    globalThis.open = (address) => {
      globalThis.opened = address;
      return null; // As if the browser had blocked it.
    };
  });
  await page.click("#perfetto");
  assert.match(await page.evaluate(() => globalThis.opened), /^https:\/\/ui\.perfetto\.dev/);
  await page.waitForFunction(() => /blocked/.test(document.getElementById("notice").textContent));
  assert.equal(await page.$eval("#perfetto", (button) => button.disabled), false);
});

test("nothing of the rows lies below the tools, which can be moved", async () => {
  const overlaps = (a, b) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const docked = await boxOf("#tools");
  for (const part of ["#canvas", "#labels"])
    assert.ok(!overlaps(docked, await boxOf(part)), `the tools lie over ${part}`);
  const grip = await boxOf("#tools-grip");
  const at = { x: grip.left + 5, y: grip.top + 10 };
  await drag(page, at, { x: at.x + 600, y: at.y + 300 });
  const floating = await boxOf("#tools");
  near(floating.left, docked.left + 600, 1);
  near(floating.top, docked.top + 300, 1);
  await page.click('[data-tool="pan"]');
  assert.equal(await state("tool"), "pan", "its buttons still work");
  await reopen();
  assert.deepEqual(await boxOf("#tools"), floating, "the browser keeps its place");
  await page.setViewport({ width: 700, height: 400 });
  await page.waitForFunction(
    () => document.getElementById("tools").getBoundingClientRect().right <= 700,
  );
  const small = await boxOf("#tools");
  assert.ok(small.right <= 701 && small.bottom <= 401, JSON.stringify(small));
  await page.setViewport({ width: 1280, height: 800 });
  await page.focus("#tools-grip");
  await page.keyboard.press("ArrowLeft");
  assert.ok((await boxOf("#tools")).left < small.left);
  await page.keyboard.press("Home");
  assert.deepEqual(await boxOf("#tools"), docked);
});

test("the pane and the names' column are resized, by mouse and keyboard, and keep their size", async () => {
  await clickAt("python", 0, 12 * MS);
  await selected("train");
  const panel = await boxOf("#panel");
  const line = await boxOf("#panel-size");
  await drag(page, { x: 600, y: line.top + 2 }, { x: 600, y: line.top - 98 });
  near((await boxOf("#panel")).height, panel.height + 100, 2);
  const names = await boxOf("#labels");
  await drag(page, { x: names.right - 2, y: 300 }, { x: names.right + 148, y: 300 });
  near((await boxOf("#labels")).width, names.width + 150, 2);
  near((await boxOf("#canvas")).left, names.right + 150, 2);
  assert.equal((await boxOf("#canvas")).right, 1280, "the canvas has the rest");
  await page.focus("#labels-size");
  const before_ = await view(page);
  await press(page, "ArrowRight");
  near((await boxOf("#labels")).width, names.width + 174, 2);
  assert.deepEqual(await view(page), before_, "the arrow does not move the timeline too");
  const told = await page.$eval("#labels-size", (node) => [
    node.getAttribute("role"),
    Number(node.getAttribute("aria-valuenow")),
    Number(node.getAttribute("aria-valuemin")),
    Number(node.getAttribute("aria-valuemax")),
  ]);
  assert.equal(told[0], "separator");
  near(told[1], names.width + 174, 2);
  assert.ok(told[2] < told[1] && told[1] < told[3]);
  await reopen();
  near((await boxOf("#labels")).width, names.width + 174, 2);
  await clickAt("python", 0, 12 * MS);
  await selected("train");
  near((await boxOf("#panel")).height, panel.height + 100, 2);
  await page.click("#panel-full");
  near((await boxOf("#stage")).height, 120, 2);
  await page.click("#panel-full");
  near((await boxOf("#panel")).height, panel.height + 100, 2);
  // A double click gives the page's own size back.
  const split = await boxOf("#labels-size");
  await page.mouse.click(split.left + 2, 300, { count: 2 });
  near((await boxOf("#labels")).width, names.width, 2);
});

// ---- Lists --------------------------------------------------------------------------------------

test("the list of hits stays beside the details of a hit", async () => {
  await page.type("#find-text", "kernel_1");
  await page.waitForFunction(
    () => document.querySelectorAll("#panel-list tbody tr").length === 100,
  );
  assert.match(
    await text(page, "#panel-list"),
    /Section/,
    "equal names on two GPUs are told apart",
  );
  await page.$$eval("#panel-list tbody button", (buttons) => buttons[40].click());
  await page.waitForFunction(() => globalThis.strobe.state.selected.length === 1);
  await idle(page);
  assert.equal(await page.$$eval("#panel-list tbody tr", (rows) => rows.length), 100);
  assert.match(await text(page, "#panel-details"), /Duration150 µs/);
  assert.equal(
    await page.$$eval("#panel-list tr.chosen", (rows) => rows.map((row) => row.rowIndex).join()),
    "41",
    "the hit is marked in the list",
  );
  await shot(page, "hits");
  await page.evaluate(() => document.activeElement.blur());
  await press(page, "Escape");
  assert.ok(await page.$eval("#panel-details", (node) => node.hidden), "Esc closes the details");
  assert.ok(!(await page.$eval("#panel-list", (node) => node.hidden)), "and leaves the list");
  await press(page, "Escape");
  assert.ok(await page.$eval("#panel", (node) => node.hidden), "then the list");
});

test("another run begins without the hits and the details of the one before", async () => {
  await page.type("#find-text", "kernel_1");
  await page.waitForFunction(
    () => document.querySelectorAll("#panel-list tbody tr").length === 100,
  );
  await page.$$eval("#panel-list tbody button", (buttons) => buttons[40].click());
  await page.waitForFunction(() => globalThis.strobe.state.selected.length === 1);
  await showRun(ONE_WORKER);
  assert.ok(await page.$eval("#panel", (node) => node.hidden));
  assert.deepEqual(await state("selected"), []);
  assert.equal(await page.$eval("#find-text", (node) => node.value), "");
  assert.equal(await text(page, "#find-count"), "");
  await page.waitForFunction(() => !/find=|event=/.test(location.hash));
  await page.type("#find-text", "kernel_1");
  await page.waitForFunction(() => document.querySelectorAll("#panel-list tbody tr").length > 0);
});

test("answers about the run before are dropped", async () => {
  const questions = await holdQuestions("event", "events", "select", "steps");
  await clickAt("python", 0, 12 * MS);
  await until(() => questions.has("event"));
  await dragTimes("python", 10 * MS, 19 * MS);
  await until(() => questions.has("select"));
  const row = await rowNamed(page, "python");
  await page.evaluate((of) => document.querySelector(`[data-key="row ${of}"]`).click(), row);
  await until(() => questions.has("events"));
  await page.keyboard.press("c");
  await until(() => questions.has("steps"));
  await showRun(ONE_WORKER);
  await questions.release();
  assert.ok(await page.$eval("#panel", (node) => node.hidden));
  assert.deepEqual(await state("selected"), []);
  assert.deepEqual(page.troubles, []);
});

test("a late answer does not replace what was selected after it", async () => {
  const questions = await holdQuestions("event");
  await clickAt("python", 0, 12 * MS);
  await until(() => questions.has("event"));
  await questions.stop();
  await clickAt("python", 0, 25 * MS);
  await page.waitForFunction(() => globalThis.strobe.state.selected[0]?.ordinal === 2);
  await questions.release();
  assert.equal((await state("selected"))[0].ordinal, 2);
});

test("a mark that is being measured does not land in the next run", async () => {
  const questions = await holdQuestions("event");
  await page.keyboard.press("4");
  await dragTimes("python", 10 * MS, 19 * MS, { from: 3, to: -4 });
  await until(() => questions.has("event"));
  await showRun(ONE_WORKER);
  await questions.release();
  assert.deepEqual(await marks(), []);
  assert.equal(await state("timing"), null);
});

test("an error about the tiles of the run before is not told", async () => {
  await page.evaluate((run) => {
    const ask = globalThis.fetch;
    globalThis.fetch = (url, options) => {
      const { pathname, searchParams } = new URL(url, globalThis.location);
      const holds =
        !globalThis.loseTile && pathname === "/api/tiles" && searchParams.get("run") === run;
      if (!holds) return ask(url, options);
      return new Promise((resolve) => {
        globalThis.loseTile = () => resolve(new Response("the tile is lost", { status: 500 }));
      });
    };
  }, ONE_WORKER);
  await page.select("#run", ONE_WORKER);
  await until(() => page.evaluate(() => globalThis.loseTile !== undefined));
  await showRun(WITH_WINDOW);
  await page.evaluate(async () => {
    globalThis.loseTile();
    // What the page does with the tile comes before what it does with this answer.
    await (await fetch("/healthz")).text();
  });
  assert.doesNotMatch(await text(page, "#notice"), /the tile is lost/);
});

test("the list names the run that is shown when another one cannot be opened", async () => {
  const shown = await page.$eval("#run", (node) => node.value);
  await refuse(page, "run", "the bucket says no");
  await page.select("#run", ONE_WORKER);
  await textIs("notice", "the bucket says no");
  assert.equal(await page.$eval("#run", (node) => node.value), shown);
});

test("a search is given up when its text changes", async () => {
  await page.evaluate(() => {
    const ask = globalThis.fetch;
    globalThis.fetch = (url, options) => {
      if (globalThis.held || !/^api\/find\?.*in=all/.test(url)) return ask(url, options);
      globalThis.held = options.signal;
      return new Promise((_, reject) => {
        options.signal.onabort = () => reject(options.signal.reason);
      });
    };
  });
  await page.type("#find-text", "kernel_1");
  await page.waitForFunction(() => globalThis.held);
  await page.type("#find-text", "2");
  await page.waitForFunction(() => globalThis.held.aborted);
});

test("keys are for the timeline also when the list of runs has the focus", async () => {
  await page.focus("#run");
  const run = await page.$eval("#run", (node) => node.value);
  const whole = await view(page);
  await page.keyboard.press("2");
  assert.equal(await state("tool"), "pan");
  await hold(page, "w", 200);
  assert.ok((await view(page)).end - (await view(page)).begin < whole.end - whole.begin);
  assert.equal(await page.$eval("#run", (node) => node.value), run);
  // Arrows are the list's own: it is used with the keyboard, too.
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction(
    (of) => document.getElementById("run").value !== of && globalThis.strobe.idle,
    {},
    run,
  );
});

test("no accessibility rule is broken with a list beside details, and marks", async () => {
  await reloadWithoutPolicy(page);
  await idle(page);
  await page.type("#find-text", "kernel_1");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => globalThis.strobe.state.selected.length === 1);
  await page.evaluate(() => document.activeElement.blur());
  await press(page, "m");
  assert.deepEqual(await brokenRules(page), []);
});

// ---- Marks --------------------------------------------------------------------------------------

test("several times are marked; their edges are dragged; F and M know them", async () => {
  await page.keyboard.press("4");
  await dragTimes("python", 10 * MS, 19 * MS, { from: 3, to: -4 });
  await page.waitForFunction(() => globalThis.strobe.state.marks.length === 1);
  await dragTimes("python", 30 * MS, 39 * MS, { from: 3, to: -4 });
  await page.waitForFunction(() => globalThis.strobe.state.marks.length === 2);
  assert.deepEqual(await marks(), [
    { begin: 10 * MS, end: 19 * MS },
    { begin: 30 * MS, end: 39 * MS },
  ]);
  await shot(page, "marks");
  // With the selection tool, edges are taken in the axis.
  await page.keyboard.press("1");
  const canvas = await boxOf("#canvas");
  const xOf = async (ps) =>
    canvas.left + (await page.evaluate((at) => globalThis.strobe.x(at), ps));
  await drag(
    page,
    { x: await xOf(19 * MS), y: canvas.top + 30 },
    {
      x: (await xOf(20 * MS)) + 2,
      y: (await pointOf(page, await rowNamed(page, "python"), 0, 0)).y,
    },
  );
  await page.waitForFunction(() => globalThis.strobe.state.marks[0].end === 20e9);
  assert.equal((await marks())[0].begin, 10 * MS, "the other edge stays");
  // F zooms to the mark that was moved last, as nothing is selected.
  await press(page, "f");
  near((await view(page)).begin, 9 * MS, 1000);
  near((await view(page)).end, 21 * MS, 1000);
  const link = page.url();
  await press(page, "0");
  // A click on the other one makes it the one that is meant.
  await page.mouse.click(await xOf(34 * MS), canvas.top + 30);
  await press(page, "f");
  near((await view(page)).begin, 29.1 * MS, 1000);
  await press(page, "m");
  assert.deepEqual(await marks(), [{ begin: 10 * MS, end: 20 * MS }], "M takes it away");
  await reopen(link);
  assert.equal((await marks()).length, 2, "the link holds all of them");
  await press(page, "Escape");
  assert.equal((await marks()).length, 0);
});

test("a drag along the axis marks a time; Shift and the middle button pan", async () => {
  const canvas = await boxOf("#canvas");
  const xOf = async (ps) =>
    canvas.left + (await page.evaluate((at) => globalThis.strobe.x(at), ps));
  await clickAt("python", 0, 12 * MS);
  await selected("train");
  await drag(
    page,
    { x: await xOf(20 * MS), y: canvas.top + 8 },
    { x: await xOf(30 * MS), y: canvas.top + 9 },
  );
  await page.waitForFunction(() => globalThis.strobe.state.marks.length === 1);
  const [mark] = await marks();
  near(mark.begin, 20 * MS, 0.1 * MS);
  near(mark.end, 30 * MS, 0.1 * MS);
  assert.equal((await state("selected")).length, 1, "the selection stays");
  const whole = await view(page);
  const from = await pointOf(page, await rowNamed(page, "python"), 0, 20 * MS);
  const to = { x: from.x + 100, y: from.y };
  const shift = ((whole.end - whole.begin) * 100) / canvas.width;
  await page.keyboard.down("Shift");
  await drag(page, from, to);
  await page.keyboard.up("Shift");
  await idle(page);
  near((await view(page)).begin, whole.begin - shift, 10);
  await page.mouse.move(from.x, from.y);
  await page.mouse.down({ button: "middle" });
  await page.mouse.move(from.x - 100, from.y, { steps: 4 });
  await page.mouse.up({ button: "middle" });
  await idle(page);
  near((await view(page)).begin, whole.begin, 10);
  assert.equal((await state("selected"))[0].name, "train", "nothing else was selected");
});

test("Ctrl and a box add to what is selected, each event once", async () => {
  await boxOver(1.9 * MS, 7.9 * MS);
  await textIs("panel-title", "20 events selected");
  await page.keyboard.down("Control");
  await boxOver(11.9 * MS, 17.9 * MS);
  await textIs("panel-title", "40 events selected");
  await boxOver(5.9 * MS, 12.0 * MS + 1);
  await textIs("panel-title", "40 events selected");
  const point = await pointOf(page, await rowNamed(page, "python"), 0, 25 * MS);
  await page.mouse.click(point.x, point.y);
  await textIs("panel-title", "41 events selected");
  await page.keyboard.up("Control");
  assert.match(await text(page, "#panel-details"), /kernel_02300 µs/);
  await press(page, "f");
  near((await view(page)).begin, 2 * MS - 2.7 * MS, 0.01 * MS);
  await press(page, "Escape");
  assert.ok(await page.$eval("#panel", (node) => node.hidden));
});

test("Ctrl and a box add to a box that is still being summed", async () => {
  const questions = await holdQuestions("select");
  await boxOver(1.9 * MS, 7.9 * MS);
  await until(() => questions.has("select"));
  await page.keyboard.down("Control");
  await boxOver(11.9 * MS, 17.9 * MS);
  await page.keyboard.up("Control");
  await questions.release();
  await textIs("panel-title", "40 events selected");
});

test("a box that cannot be summed leaves selected what is shown", async () => {
  await clickAt("python", 0, 12 * MS);
  await selected("train");
  await refuse(page, "select", "the trace was changed");
  await boxOver(1.9 * MS, 7.9 * MS);
  await textIs("notice", "the trace was changed");
  assert.equal((await state("selected"))[0]?.name, "train");
  assert.match(await text(page, "#panel-details"), /Duration/);
});

test("an error is not taken for the end of a row", async () => {
  await clickAt("python", 0, 12 * MS);
  await selected("train");
  await refuse(page, "event", "the trace was changed");
  await page.keyboard.press("ArrowRight");
  await textIs("notice", "the trace was changed");
});

test("a link keeps its event, but not once the run has other traces", async () => {
  await clickAt("python", 0, 12 * MS);
  await selected("train");
  await page.waitForFunction(() => /event=/.test(location.hash) && /v=\d/.test(location.hash));
  const link = page.url();
  await reopen(link);
  await selected("train");
  await reopen(link.replace(/([#&])v=\d+/, "$1v=1"));
  await page.waitForFunction(() =>
    /other traces/.test(document.getElementById("notice").textContent),
  );
  assert.deepEqual(await state("selected"), []);
});

test("a page of the traces of before is told to reload", async () => {
  await page.evaluate(() => {
    const ask = globalThis.fetch;
    globalThis.fetch = (url, options) =>
      ask(String(url).replace(/([?&]version=)\d+/, "$11"), options);
  });
  await clickAt("python", 0, 12 * MS);
  await page.waitForFunction(() =>
    /reload the page/.test(document.getElementById("notice").textContent),
  );
  page.troubles.length = 0; // The browser notes the refusals.
});

test("a page that is looked at again tells that more traces have arrived", async () => {
  await page.evaluate(() => {
    const ask = globalThis.fetch;
    globalThis.fetch = async (url, options) => {
      const answer = await ask(url, options);
      if (!/api\/run\?/.test(url)) return answer;
      return Response.json({ ...(await answer.json()), version: "1" });
    };
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await page.waitForFunction(() =>
    /More traces have arrived/.test(document.getElementById("notice").textContent),
  );
});

// ---- Time ---------------------------------------------------------------------------------------

test("the strip shows the whole run, and its frame moves and zooms the view", async () => {
  const inked = await page.$eval("#strip-canvas", (canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const values = new Uint32Array(data.buffer);
    return values.filter((value) => value !== values[0]).length / values.length;
  });
  assert.ok(inked > 0.1 && inked < 0.9, `${inked} of the strip has events`);
  const strip = await boxOf("#strip-canvas");
  const whole = await view(page);
  const frame = await boxOf("#strip-frame");
  near(frame.width, strip.width, 8);
  // An edge zooms.
  await drag(
    page,
    { x: frame.right - 2, y: strip.top + 20 },
    { x: strip.left + strip.width / 2, y: strip.top + 20 },
  );
  await idle(page);
  const half = await view(page);
  near(half.begin, whole.begin, 0.1 * MS);
  near(half.end, (whole.begin + whole.end) / 2, 0.3 * MS);
  // The middle moves.
  await drag(
    page,
    { x: strip.left + 100, y: strip.top + 20 },
    { x: strip.left + 300, y: strip.top + 20 },
  );
  await idle(page);
  const moved = await view(page);
  near(moved.end - moved.begin, half.end - half.begin, 10);
  near(moved.begin - half.begin, (200 / strip.width) * (whole.end - whole.begin), 0.2 * MS);
  near((await boxOf("#strip-frame")).left, frame.left + 200, 3);
  // A press beside the frame brings it there.
  await page.mouse.click(strip.right - 60, strip.top + 20);
  await idle(page);
  assert.ok((await view(page)).end > whole.end - 2 * MS);
  await page.focus("#strip-frame");
  const there = await view(page);
  await press(page, "ArrowLeft");
  near(there.begin - (await view(page)).begin, 0.1 * (there.end - there.begin), 10);
  assert.equal(await page.$eval("#strip-frame", (node) => node.getAttribute("role")), "scrollbar");
  await shot(page, "strip");
});

test("the first view is the time that the capture asked for; 0 shows everything", async () => {
  await reopen(`${URL_}#run=${WITH_WINDOW}`);
  const first = await view(page);
  near(first.begin, 10 * MS - 0.2 * MS, 10);
  near(first.end, 30 * MS + 0.2 * MS, 10);
  await shot(page, "window");
  await press(page, "0");
  assert.ok((await view(page)).begin <= 0 && (await view(page)).end >= 49 * MS);
});

test("lines below the ticks lead through the rows", async () => {
  // A section's rows are closed, so that below the last one there is nothing but the grid.
  await page.evaluate(() =>
    document.querySelectorAll('[data-key^="section"]').forEach((node) => node.click()),
  );
  await idle(page);
  const canvas = await boxOf("#canvas");
  const x = await page.evaluate(() => globalThis.strobe.x(10e9));
  const picture = await pixelsOf(browser, await page.screenshot());
  const at = (dx) => picture.at(Math.floor(canvas.left + x) + dx, canvas.bottom - 20).join();
  assert.equal(at(10), "255,255,255");
  assert.notEqual(at(0), "255,255,255");
});

test("few rows are higher and use the window", async () => {
  await page.setViewport({ width: 1920, height: 1080 });
  await reopen(`${URL_}#run=${ONE_WORKER}`);
  await resize(page, 1920, 1080);
  const { track, height } = await page.evaluate(() => ({
    track: globalThis.strobe.layout.track,
    height: globalThis.strobe.layout.height,
  }));
  assert.ok(track > 15 && track <= 30, `tracks of ${track} pixels`);
  const canvas = await boxOf("#canvas");
  assert.ok(height <= canvas.height - 38, "all of them are seen at once");
  await shot(page, "high-rows");
  // Opening the pane does not change the rows' height: they would leap.
  await clickAt("python", 0, 12 * MS);
  await selected("train");
  assert.equal(await page.evaluate(() => globalThis.strobe.layout.track), track);
  await resize(page, 1280, 300);
  assert.equal(await page.evaluate(() => globalThis.strobe.layout.track), 15, "no less than this");
});

test("0 also goes back to the first row", async () => {
  await resize(page, 1280, 400);
  const { left, top } = await boxOf("#canvas");
  await page.mouse.move(left + 300, top + 150);
  await page.mouse.wheel({ deltaY: 200 });
  await idle(page);
  const row = await rowNamed(page, "Steps");
  const place = () => page.evaluate((of) => globalThis.strobe.placeOf(of, 0), row);
  assert.equal(await place(), null, "scrolled out of sight");
  await press(page, "0");
  assert.ok((await place()) > 0);
});

test("a vertical drag with the zoom tool does not zoom", async () => {
  const whole = await view(page);
  await page.keyboard.press("3");
  const point = await pointOf(page, await rowNamed(page, "XLA Ops"), 0, 25 * MS);
  await drag(page, point, { x: point.x + 2, y: point.y + 90 });
  await idle(page);
  assert.deepEqual(await view(page), whole);
});

// ---- The hint -----------------------------------------------------------------------------------

test("the hint has the exact duration of events that are larger than a tile", async () => {
  const point = await pointOf(page, await rowNamed(page, "python"), 0, 25 * MS);
  await page.mouse.move(point.x, point.y);
  const hint = (wanted) =>
    page.waitForFunction((of) => document.getElementById("hint").textContent === of, {}, wanted);
  await hint("train\n9 ms, starts at 20 ms\npython, worker-0");
  // Zoomed in, the event goes on beyond its tiles and beyond the view.
  const width = async () => (await view(page)).end - (await view(page)).begin;
  for (let i = 0; i < 8 && (await width()) >= 5 * MS; ++i) await hold(page, "w", 800);
  assert.ok((await width()) < 5 * MS);
  await hint("train\n9 ms, starts at 20 ms\npython, worker-0");
  // The scene moves below the pointer, which rests.
  await press(page, "0");
  await hold(page, "w", 600);
  await hold(page, "s", 600);
  await hold(page, "d", 300);
  const under = await page.evaluate(() => document.getElementById("hint").textContent);
  await page.mouse.move(point.x + 1, point.y);
  await idle(page);
  assert.equal(
    under.split("\n")[0],
    (await page.evaluate(() => document.getElementById("hint").textContent)).split("\n")[0],
    "the hint was already that of the new place",
  );
});

test("what could not be loaded is asked for again", async () => {
  // The browser's own event is kept from the page: a server that was away sends none.
  await page.evaluateOnNewDocument(() =>
    addEventListener("online", (event) => event.stopImmediatePropagation(), true),
  );
  await page.reload();
  await idle(page);
  await page.setOfflineMode(true);
  await hold(page, "w", 900);
  await page.waitForFunction(() => !document.getElementById("notice").hidden);
  page.troubles.length = 0; // The browser notes each request that failed.
  const missing = await page.evaluate(() => globalThis.strobe.missing);
  assert.ok(missing > 0, "some tiles are missing");
  await page.setOfflineMode(false);
  await page.waitForFunction(() => globalThis.strobe.missing === 0 && globalThis.strobe.idle);
});

for (const [name, loads] of [
  ["cannot be loaded", false],
  ["fails later", true],
]) {
  test(`tiles are decoded in the page when its worker ${name}`, async () => {
    await page.evaluateOnNewDocument((isFound) => {
      globalThis.Worker = class extends Worker {
        constructor(url, options) {
          super(isFound ? url : "/nothing-is-here.js", options);
          globalThis.decoder = this;
          this.addEventListener("error", () => (globalThis.failed = true));
        }
      };
    }, loads);
    await page.reload();
    await idle(page);
    await page.waitForFunction(
      (found) => globalThis.decoder && (found || globalThis.failed),
      {},
      loads,
    );
    if (loads) await page.evaluate(() => globalThis.decoder.dispatchEvent(new Event("error")));
    page.troubles.length = 0; // The browser notes the missing file.
    await hold(page, "w", 900);
    await page.waitForFunction(() => globalThis.strobe.missing === 0 && globalThis.strobe.idle);
    assert.deepEqual(page.troubles, []);
  });
}

// ---- Small things -------------------------------------------------------------------------------

test("arguments that XLA uses itself are not shown", async () => {
  await clickAt("python", 0, 12 * MS);
  await selected("train");
  const details = await text(page, "#panel-details");
  assert.match(details, /step_num1/);
  assert.doesNotMatch(details, /_r/);
});

test("the canvas has a frame for the keyboard only", async () => {
  const outline = () => page.$eval("#canvas", (node) => getComputedStyle(node).outlineStyle);
  await clickAt("python", 0, 12 * MS);
  await selected("train");
  assert.equal(await outline(), "none");
  await page.focus("#strip-frame");
  await page.keyboard.press("Tab");
  for (let i = 0; i < 200; ++i) {
    if (await page.evaluate(() => document.activeElement.id === "canvas")) break;
    await page.keyboard.press("Tab");
  }
  assert.notEqual(await outline(), "none");
});

// ---- Colours ------------------------------------------------------------------------------------

/** Relative luminance as WCAG 2.2 defines it. */
function luminance(color) {
  const [red, green, blue] = color.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

for (const theme of ["light", "dark"]) {
  test(`every event stands out from the background by 3:1, in the ${theme} theme`, async () => {
    if ((await page.evaluate(() => document.documentElement.dataset.theme)) !== theme) {
      await page.click("#theme");
      await idle(page);
    }
    const canvas = await boxOf("#canvas");
    const { track, rows } = await page.evaluate(() => ({
      track: globalThis.strobe.layout.track,
      rows: globalThis.strobe.layout.items
        .filter((item) => item.type === "row" && item.tracks > 0)
        .map((item) => globalThis.strobe.placeOf(item.row, 0))
        .filter((y) => y !== null),
    }));
    const picture = await pixelsOf(browser, await page.screenshot());
    const back = theme === "light" ? [255, 255, 255] : [20, 23, 28];
    // The lowest line of a track holds every event, and no text.
    const worst = { ratio: Infinity };
    const kinds = new Set();
    let seen = 0;
    for (const y of rows) {
      const line = Math.round(canvas.top + y + track - 2);
      if (line >= canvas.bottom) continue;
      for (let x = Math.ceil(canvas.left); x < canvas.right; ++x) {
        const color = picture.at(x, line);
        const ratio = contrast(color, back);
        if (ratio < 1.3) continue; // Background or a line of the grid.
        ++seen;
        kinds.add(color.join());
        if (ratio < worst.ratio) Object.assign(worst, { ratio, color, x, line });
      }
    }
    assert.ok(seen > 2000 && kinds.size >= 10, `${seen} pixels of ${kinds.size} colours`);
    assert.ok(worst.ratio >= 3, JSON.stringify(worst));
    await shot(page, `contrast-${theme}`);
  });
}

test("blocks of many events are the higher the busier their time is", async () => {
  // 600 events of no length at one time are hardly any time; the kernels fill three quarters.
  const heightAt = async (name, track, ps) => {
    const place = await pointOf(page, await rowNamed(page, name), track, ps);
    const height = await page.evaluate(() => globalThis.strobe.layout.track);
    const picture = await pixelsOf(browser, await page.screenshot());
    let high = 0;
    for (let y = place.y - 7; y < place.y - 7 + height; ++y)
      if (contrast(picture.at(Math.round(place.x), y), [255, 255, 255]) >= 3) ++high;
    return high;
  };
  const full = await heightAt("python", 0, 25 * MS);
  const ties = await heightAt("pool", 0, 30 * MS);
  assert.ok(full >= 12, `an event is ${full} pixels high`);
  assert.ok(ties >= 2 && ties < full / 2, `a sparse block is ${ties} pixels high`);
});
