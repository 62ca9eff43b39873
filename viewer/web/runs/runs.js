// The page that lists and searches the runs of all logdirs.
import { Api } from "../shared/api.js";
import { compareLink } from "../shared/compare_link.js";
import { element } from "../shared/elements.js";
import { followTheme } from "../shared/browser.js";
import { RunDetails } from "./details.js";
import { RunTable } from "./table.js";

const TYPING_MS = 120; // Waits for the next key before it searches.
const BUSY_MS = 2000; // Between two questions while manifests are being read, or after a failure.
const REFRESH_MS = 20_000; // Between two questions otherwise, for new runs.

const $ = (id) => document.getElementById(id);
const api = new Api("");
let timer = 0; // For the next question about new runs.
let typing = 0; // For the search for what is being typed, which no answer may put off.

const table = new RunTable($("list"), (query) => api.get("catalog", query), {
  told,
  chosen: (name) => {
    link({ run: name });
    details.show(name);
    table.select(name);
  },
  ticked,
  failed: (error) => {
    failed(error);
    again(BUSY_MS); // A server that was restarted is found again.
  },
});
const details = new RunDetails($("details"), {
  closed: (name) => {
    link({ run: "" });
    table.select("");
    (table.row(name) ?? $("search-text")).focus();
  },
  failed,
  said: say,
});

/** What the page's URL names: the words to search for, and the run whose details are shown. */
function linked() {
  const hash = new URLSearchParams(location.hash.slice(1));
  return { q: hash.get("q") ?? "", run: hash.get("run") ?? "" };
}
function link(change) {
  const { q, run } = { ...linked(), ...change };
  const hash = new URLSearchParams();
  if (q) hash.set("q", q);
  if (run) hash.set("run", run);
  history.replaceState(null, "", `#${hash}`);
}

function say(text, look = "") {
  $("state").textContent = text;
  $("state").className = look;
}
function failed(error) {
  say(error.message ?? String(error), "bad");
}

function told({ logdirs }) {
  const problems = logdirs.filter(({ problem, leftOut }) => problem || leftOut);
  $("problems").replaceChildren(
    ...problems.map(({ logdir, problem }) =>
      element("li", `${logdir}: ${problem || "its oldest runs are left out"}`),
    ),
  );
  const busy = logdirs.some((logdir) => logdir.busy);
  say(busy ? "Reading runs…" : "");
  $("end").textContent = table.body.firstElementChild ? "" : emptiness(logdirs, busy);
  again(busy ? BUSY_MS : REFRESH_MS);
}

/** Two ticked runs can be compared. */
function ticked(runs) {
  const [a, b] = runs.map((run) => ({ run, worker: "" }));
  $("compare").hidden = runs.length === 0;
  $("compare").disabled = runs.length < 2;
  $("compare").textContent = runs.length < 2 ? "Compare: tick one more" : "Compare two runs";
  $("compare").onclick = () => location.assign(compareLink(a, b));
}

/** Why there is no run to be seen. */
function emptiness(logdirs, busy) {
  if (logdirs.length === 0)
    return "You may see the runs of no namespace. Ask for the right to get profilerequests.strobe.dev in yours.";
  if (busy || logdirs.some(({ problem }) => problem)) return "";
  return table.text
    ? "No runs match."
    : "There are no runs yet. They appear here shortly after their captures have ended.";
}

function again(pause) {
  clearTimeout(timer);
  timer = setTimeout(refresh, pause);
}

/** Looks for new runs, unless the user has scrolled or is in the midst of something. */
function refresh() {
  if (document.hidden || $("list").scrollTop > 0) again(BUSY_MS);
  else search();
}

async function search() {
  await table.show($("search-text").value);
  table.select(details.run);
}

$("search-text").oninput = () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    link({ q: $("search-text").value });
    $("list").scrollTop = 0;
    search();
  }, TYPING_MS);
};
$("search").onsubmit = (event) => {
  event.preventDefault();
  table.move(table.body.firstElementChild);
};
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && details.run) details.close();
  if (event.key !== "/" || event.target === $("search-text")) return;
  event.preventDefault();
  $("search-text").focus();
});
addEventListener("hashchange", () => location.reload());

async function start() {
  followTheme($("theme"));
  const { q, run } = linked();
  $("search-text").value = q;
  search();
  try {
    const { place, xprof, perfetto } = await api.get("runs");
    document.title = place ? `${place} – Strobe` : "Runs – Strobe";
    details.links = { xprof, perfetto };
  } catch (error) {
    failed(error);
  }
  if (run) details.show(run);
}

start();
