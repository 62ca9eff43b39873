// Tests the overview of a run with evidence, in place of traces, against what `strobe why` and
// `strobe stacks` say of the same files.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { brokenRules, launch, listen, shot, text } from "./page.mjs";

const URL_ = process.env.STROBE_VIEW;
const WITNESS = JSON.parse(readFileSync(process.env.STROBE_WITNESS));
let browser;

before(async () => {
  browser = await launch();
});
after(() => browser.close());

/** Opens a page, which may complain only of the timeline, because there is none. */
async function visit(hash, check) {
  const page = await listen(browser);
  await page.goto(`${URL_}${hash}`);
  await page.waitForSelector("#overview .headline");
  await check(page);
  const others = page.troubles.filter((each) => !/status of 404/.test(each));
  assert.deepEqual(others, []);
  await page.close();
}

const stacksOf = (page) =>
  page.$$eval("#overview .stack", (found) =>
    found.map((stack) => ({
      head: stack.querySelector("summary").textContent,
      frames: stack.querySelector("pre").textContent.split("\n"),
      open: stack.open,
    })),
  );

/** The numbers of "0-3, 8". */
const expanded = (ranges) =>
  ranges.split(", ").flatMap((range) => {
    if (!range) return [];
    const [begin, end = begin] = range.split("-").map(Number);
    return Array.from({ length: end - begin + 1 }, (_, i) => begin + i);
  });

test("the verdict comes first, and then the stacks put together", () =>
  visit("#run=stood", async (page) => {
    await page.waitForFunction(() => globalThis.strobe?.tab === "overview", { polling: 20 });
    const [headline, ...rest] = WITNESS.verdict.text.trimEnd().split("\n");
    assert.match(headline, /^rank 2 holds up 3 others: .*culprit_gil$/);
    assert.equal(await text(page, "#overview .report > :first-child"), headline);
    const said = await page.$$eval("#overview .report > p", (found) =>
      found.map((each) => each.textContent),
    );
    assert.deepEqual(said, rest);
    const stacks = await stacksOf(page);
    assert.equal(stacks.length, WITNESS.stacks.length);
    assert.match(stacks[0].head, /^rank 2, Python's lock: all/, "the odd one comes first");
    stacks.forEach(({ frames }, i) => {
      assert.deepEqual(
        frames,
        WITNESS.stacks[i].frames.map(({ file, line, name }) => `${file}:${line} in ${name}`),
      );
    });
    const ranks = stacks.map(({ head }) => /^ranks? ((?:\d+(?:-\d+)?(?:, )?)+)/.exec(head)[1]);
    assert.deepEqual(
      ranks.map(expanded),
      WITNESS.stacks.map((stack) => stack.ranks),
    );
    assert.match(await text(page, "#overview"), /llm-4 is missing: its sidecar is gone/);
  }));

test("markup in names is text, and much is cut", () =>
  visit("#run=hostile&tab=overview", async (page) => {
    assert.match(await text(page, "#overview .headline"), /<img src=x onerror/);
    assert.equal(await page.$("#overview img, #overview script"), null);
    const stacks = await stacksOf(page);
    assert.equal(stacks.length, 200);
    assert.deepEqual(
      stacks.slice(0, 5).map(({ open }) => open),
      [true, true, true, false, false],
    );
    assert.match(stacks[0].head, /^ranks 0-4095, and 904 more$/);
    assert.equal(stacks[0].frames.at(-1), "and 100 more");
    const all = await text(page, "#overview");
    assert.match(all, /and 100 more stacks\./);
    assert.match(all, /and 30 more missing workers\./);
  }));

test("what cannot be shown is told", () =>
  visit("#run=broken&tab=overview", async (page) => {
    assert.equal(
      await text(page, "#overview .headline"),
      "evidence.json cannot be shown: evidence.verdict is not an object",
    );
  }));

test("the list of runs says the verdict", async () => {
  const page = await listen(browser);
  await page.goto(`${URL_}runs.html#run=stood`);
  const headline = WITNESS.verdict.text.split("\n")[0];
  await page.waitForFunction(
    (wanted) =>
      ["#list", "#details-body"].every((part) =>
        document.querySelector(part).textContent.includes(wanted),
      ),
    { polling: 100 },
    headline,
  );
  assert.deepEqual(page.troubles, []);
  await page.close();
});

test("both themes and narrow pages can be read by everybody", () =>
  visit("#run=stood&tab=overview", async (page) => {
    await page.setBypassCSP(true); // The page's policy would block the test's tool.
    for (const theme of ["light", "dark"]) {
      for (const width of [1280, 420]) {
        await page.setViewport({ width, height: 900 });
        await page.evaluate((kept) => localStorage.setItem("theme", kept), theme);
        await page.goto("about:blank");
        await page.goto(`${URL_}#run=stood&tab=overview`);
        await page.waitForSelector("#overview .headline");
        assert.deepEqual(await brokenRules(page, "#overview"), [], `${theme} ${width}`);
        const overflow = await page.$eval(
          "#overview",
          (node) => node.scrollWidth - node.clientWidth,
        );
        assert.ok(overflow <= 0, `it is ${overflow} pixels wider than ${width}`);
        await shot(page, `overview-stall-${width}-${theme}`);
      }
    }
  }));
