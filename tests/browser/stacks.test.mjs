// Tests what the page makes of one rank of PyTorch with deep stacks, memory and long names. The trace
// is deep_rank() of tests/integration/test_viewer_tables.py.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fitted, shortKernel } from "../../viewer/web/shared/short_name.js";
import {
  drag,
  idle,
  listen,
  open,
  pointOf,
  resize,
  rowNamed,
  shot,
  startBrowser,
  text,
} from "./page.mjs";

const URL_ = process.env.STROBE_VIEW;
const THREAD = "python 100/thread 100";
const OUTER = 4; // Frames around all others but the innermost of those that fill the row.
const HIDDEN = `${OUTER} outer levels hidden`;
let page;
const browser = await startBrowser(() => page);

const labels = () =>
  page.$$eval("#labels .label.row", (rows) => rows.map((row) => row.textContent.trim()));
const label = async () => (await labels()).find((told) => told.startsWith(THREAD));

/** How many tracks of the thread are shown, and the first of them. */
async function tracks() {
  const row = await rowNamed(page, THREAD);
  return page.evaluate((wanted) => {
    const { layout } = globalThis.strobe;
    return { first: layout.firstOf(wanted), number: layout.tracksOf(wanted) };
  }, row);
}

async function toggle() {
  const row = await rowNamed(page, THREAD);
  await page.click(`[data-key="more ${row}"]`);
  await idle(page);
}

test("levels that only surround the others are hidden until they are asked for", async () => {
  page = await open(browser, URL_);
  const row = await rowNamed(page, THREAD);
  const { tracks: all, wrappers } = await page.evaluate(
    (of) => globalThis.strobe.description.rows[of],
    row,
  );
  assert.equal(wrappers, OUTER);
  assert.deepEqual(await tracks(), { first: OUTER, number: all - OUTER });
  assert.ok((await label()).includes(HIDDEN), await label());
  await shot(page, "deep-stack");
  await toggle();
  assert.deepEqual(await tracks(), { first: 0, number: all });
  assert.ok(!(await label()).includes("hidden"));
  await toggle();
  assert.equal((await tracks()).number, 1);
  await toggle();
  assert.deepEqual(await tracks(), { first: OUTER, number: all - OUTER });
});

test("a row shows as many levels as all rows have room for, and twelve at least", async () => {
  page = await open(browser, URL_);
  const most = await tracks();
  await resize(page, 1280, 380);
  assert.deepEqual(await tracks(), { first: OUTER, number: 12 });
  await resize(page, 1280, 800);
  assert.deepEqual(await tracks(), most);
  assert.ok(most.number > 12, `${most.number}`);
});

test("what is below hidden levels is found under the pointer", async () => {
  page = await open(browser, URL_);
  const row = await rowNamed(page, THREAD);
  const step = await page.evaluate(async () => {
    const { run } = globalThis.strobe.description;
    const question = new URLSearchParams({ run, q: "ProfilerStep#2" });
    return (await (await fetch(`/api/find?${question}`)).json()).hits.at(-1);
  });
  assert.equal(step.row, row);
  assert.equal(step.track, OUTER + 1);
  const middle = step.beginPs + step.durationPs / 2;
  const point = await pointOf(page, row, step.track, middle);
  await page.mouse.click(point.x, point.y);
  await page.waitForFunction(() => globalThis.strobe.state.selected[0]?.name === "ProfilerStep#2");
  assert.ok((await label()).includes(HIDDEN), "nothing is opened for it");
  // A box that holds this track alone.
  const end = await pointOf(page, row, step.track, step.beginPs + step.durationPs * 0.9);
  await drag(page, point, end);
  await page.waitForFunction(() =>
    document.getElementById("panel").textContent.includes("1 event, 1 name"),
  );
});

test("a hidden frame that is found is shown, also by the page's link", async () => {
  page = await open(browser, URL_);
  await page.focus("#find-text");
  await page.keyboard.type("outer_1");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => globalThis.strobe.state.selected[0]?.name.endsWith("outer_1"));
  await idle(page);
  assert.equal((await tracks()).first, 0);
  await page.waitForFunction(() => location.hash.includes("event="));
  await page.reload();
  await page.waitForFunction(() => globalThis.strobe?.state.selected[0]?.name.endsWith("outer_1"));
  assert.equal((await tracks()).first, 0);
});

test("rows have names that tell what they are, and memory has one row", async () => {
  page = await open(browser, URL_);
  const names = await labels();
  assert.ok(names.includes("process 2/thread 0⚲"), names.join("\n"));
  assert.equal(names.filter((name) => name.startsWith("Memory")).length, 1);
  assert.ok(!names.some((name) => /Total (Allocated|Reserved)/.test(name)));
  const row = await rowNamed(page, "Total Allocated");
  const { x, y } = await page.evaluate((of) => {
    const box = document.getElementById("canvas").getBoundingClientRect();
    return { x: box.x + box.width * 0.6, y: box.y + globalThis.strobe.placeOf(of, 0) + 20 };
  }, row);
  await page.mouse.move(x, y);
  const hint = await text(page, "#hint");
  assert.match(hint, /^Total Allocated\n[\d.]+ MiB\nTotal Reserved\n[\d.]+ MiB$/);
  // It is found by either name.
  for (const [filter, rows] of [
    ["reserved", 1],
    ["memory", 1],
    ["nothing such", 0],
  ]) {
    await page.$eval("#row-filter", (field) => (field.value = ""));
    await page.type("#row-filter", filter);
    await idle(page);
    assert.equal((await labels()).length, rows, filter);
  }
});

test("the overview of one worker compares it with nobody", async () => {
  page = await listen(browser);
  await page.goto(`${URL_}#tab=overview`);
  await page.waitForSelector("#overview .headline");
  assert.match(await text(page, "#overview .headline"), /^GPU busy \d/);
  const figures = await page.$$eval("#overview .figures dt", (all) =>
    all.map((dt) => dt.textContent),
  );
  assert.deepEqual(figures, ["Step period", "Exposed communication"]);
  const heads = await page.$$eval("#overview .times th", (all) => all.map((th) => th.textContent));
  assert.deepEqual(heads, ["Worker", "Time of its devices"]);
  const told = await text(page, "#overview");
  assert.match(told, /What to do/);
  assert.match(told, /Operations with the most device time/);
  assert.doesNotMatch(told, /Workers compared|Made others wait|Late workers|outer_\d|aten::op/);
  await page.click("#overview .headline a");
  await page.waitForFunction(() => globalThis.strobe.tab === "timeline", { polling: 20 });
  await shot(page, "one-worker");
});

test("long names keep what tells most of them", async () => {
  page = await open(browser, URL_);
  const frame = "torch/nn/modules/linear.py(130): forward";
  const softmax =
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, at::native::Epilogue>(float*, int)";
  const gemm = "void cutlass::Kernel2<cutlass_80_s16816gemm_bf16_64x64_tn>(cutlass_80::Params)";
  for (const [name, letters, shown] of [
    ["aten::mm", 8, "aten::mm"],
    ["aten::mm", 5, "mm"],
    [frame, 40, frame],
    [frame, 39, "linear.py(130): forward"],
    [frame, 10, "forward"],
    [frame, 5, "forw…"],
    ["nn.Module: Linear_0", 10, "Linear_0"],
    ["$threading.py:1032 _bootstrap", 20, "_bootstrap"],
    ["<built-in method run_backward of Engine object at 0x7f>", 20, "run_backward"],
    [softmax, 80, "cunn_SoftMaxForward<4, float, Epilogue>"],
    [softmax, 30, "cunn_SoftMaxForward<4, float,…"],
    [softmax, 20, "cunn_SoftMaxForward"],
    [softmax, 12, "cunn_So…ward"],
    [gemm, 60, "cutlass_80_s16816gemm_bf16_64x64_tn"],
    [gemm, 20, "cutlass_80_s…4x64_tn"],
    ["ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclComm*)", 25, "AllReduce_Sum_f32_RING_LL"],
    ["loop_fusion.1234", 12, "loop_fu…1234"],
    ["PjitFunction(train_step)", 24, "PjitFunction(train_step)"],
    ["", 0, ""],
    ["ab🙂", 4, "ab🙂"],
    ["abc🙂defg", 5, "abc…"],
    ["abcdefghijk🙂mn", 10, "abcdef…mn"],
  ])
    assert.equal(fitted(name, letters), shown);
  // So they are in a table, which has the whole name as its hint.
  await page.goto("about:blank");
  await page.goto(`${URL_}#tab=tables&table=kernels`);
  await page.waitForSelector(".sheet .lead");
  const [nccl] = await page.$$eval(".sheet .lead", (all) =>
    all.map(({ textContent, title }) => [textContent, title]),
  );
  assert.deepEqual(nccl, [
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
  ]);
  for (const name of [
    "aten::mm",
    frame,
    "PjitFunction(train_step)",
    "Memcpy DtoH (Device -> Pageable)",
  ])
    assert.equal(shortKernel(name), name);
});
