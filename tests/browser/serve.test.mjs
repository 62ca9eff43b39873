// The page of `strobe serve` in Chromium, behind a proxy with logins.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { launch, open, shot } from "./page.mjs";

const { STROBE_PROXY, STROBE_RUN, STROBE_HIDDEN } = process.env;
let browser;
before(async () => (browser = await launch()));
after(() => browser.close());

test("a user who has logged in sees his team's run and no other", async () => {
  const login = await browser.newPage();
  await login.goto(`http://jane:hers@${STROBE_PROXY}/healthz`);
  const page = await open(browser, `http://${STROBE_PROXY}/#run=${STROBE_RUN}`);
  assert.equal(await page.evaluate(() => globalThis.strobe.description.run), STROBE_RUN);
  assert.ok(!(await page.content()).includes(STROBE_HIDDEN));
  assert.deepEqual(page.troubles, []);
  await shot(page, "serve");
});
