// Takes a screenshot of a run in the trace viewer. docs/images/two-workers.png was made with:
//   STROBE_BROWSER=build/tools/browser STROBE_SHOTS=docs/images \
//     node docs/generate/picture.mjs build/bin/strobe LOGDIR two-workers 300 362
// The last two arguments are the begin and the end of the visible part in milliseconds. The run comes
// from `strobe capture` of two tests/e2e/train_loop.py at --size 1024 --pause-ms 8, so that a step is
// wide enough for its label. docs/images/viewer.png is what tests/browser/viewer.test.mjs saves as find.
import { spawn } from "node:child_process";
import { idle, launch, open, shot } from "../../tests/browser/page.mjs";

const [strobe, logdir, name, from, to] = process.argv.slice(2);
const command = ["--pdeathsig", "KILL", strobe, "view", logdir, "--cache", "none", "--listen", "127.0.0.1:0"];
const server = spawn("setpriv", command, { stdio: ["ignore", "pipe", "inherit"] });
const browser = await launch();
try {
  const url = await new Promise((resolve) => server.stdout.on("data", (data) => resolve(/http:\S+/.exec(data)[0])));
  const page = await open(browser, url);
  await page.setViewport({ width: 1400, height: 600 });
  const { run } = Object.fromEntries(new URLSearchParams(new URL(page.url()).hash.slice(1)));
  await page.goto("about:blank"); // The page loads itself anew when only its hash changes.
  await page.goto(`${url}#run=${run}&t=${from * 1e9},${to * 1e9}`);
  await idle(page);
  await shot(page, name);
} finally {
  await browser.close();
  server.kill();
}
