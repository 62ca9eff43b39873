// Tests the pages of `strobe report --output html`, opened as files. They are from
// tests/integration/test_report.py: a run, and a comparison, with hostile names.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { brokenRules, launch, listen } from "./page.mjs";

const [ONE, TWO] = JSON.parse(process.env.STROBE_REPORTS);
let browser;

before(async () => {
  browser = await launch();
});
after(() => browser.close());

async function pageIn(theme, url) {
  const page = await listen(browser);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
  await page.goto(url);
  return page;
}

for (const [name, url] of [
  ["one", ONE],
  ["two", TWO],
]) {
  test(`the page of ${name} loads nothing, complains of nothing and follows the theme`, async () => {
    const backs = [];
    for (const theme of ["light", "dark"]) {
      const page = await pageIn(theme, url);
      backs.push(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
      assert.deepEqual(page.asked, [url]);
      assert.deepEqual(page.troubles, []);
      assert.notEqual(await page.title(), "x", "no script of a name has run");
      assert.equal(await page.$$eval("script, img, b, a", (found) => found.length), 0);
      await page.screenshot({
        path: `${process.env.STROBE_SHOTS}/report-${name}-${theme}.png`,
        fullPage: true,
      });
      await page.close();
    }
    assert.deepEqual(backs, ["rgb(255, 255, 255)", "rgb(20, 23, 28)"]);
  });

  test(`the page of ${name} draws its pictures and is accessible`, async () => {
    const page = await listen(browser);
    await page.setBypassCSP(true); // For axe; the page itself has no script.
    await page.goto(url);
    const pictures = await page.$$eval("svg", (found) =>
      found.map((svg) => svg.getBoundingClientRect().height),
    );
    assert.ok(pictures.length >= 3 && pictures.every((height) => height > 20), `${pictures}`);
    const colors = await page.$$eval("rect", (found) => [
      ...new Set(found.map((rect) => getComputedStyle(rect).fill)),
    ]);
    assert.ok(
      colors.length >= 4 && !colors.includes("rgb(0, 0, 0)"),
      `every class has a colour: ${colors}`,
    );
    assert.deepEqual(await brokenRules(page), []);
    await page.close();
  });
}
