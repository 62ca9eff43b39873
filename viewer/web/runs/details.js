// A run's details: verdict, workers with their outcomes and remedies, files, and where to see it.
import { Api } from "../shared/api.js";
import { element, table } from "../shared/elements.js";
import { count } from "../shared/format.js";
import { openInPerfetto } from "../shared/perfetto.js";
import { moment, pageOf, size, skew } from "./text.js";

export class RunDetails {
  /** `section`: the element with the parts details-title, details-body and details-close. */
  constructor(section, { closed, failed, said }) {
    this.section = section;
    this.title = section.querySelector("h2");
    this.body = section.querySelector("#details-body");
    this.on = { closed, failed, said };
    this.run = "";
    this.links = { xprof: "", perfetto: "" };
    section.querySelector("#details-close").onclick = () => this.close();
  }

  async show(run) {
    this.run = run;
    this.section.hidden = false;
    this.title.textContent = run;
    this.body.replaceChildren("Reading…");
    this.title.focus();
    try {
      const api = new Api(run);
      const report = api.get("report", { make: "" }).catch(() => null); // It is of use by itself.
      const about = await api.get("manifest");
      if (run !== this.run) return;
      this.title.textContent = about.run;
      this.body.replaceChildren(
        this.linksOf(about),
        ...verdictOf(about),
        ...workersOf(about),
        ...filesOf(about),
      );
      const told = await report;
      const headline = told?.report?.headline ?? told?.evidence?.lines[0];
      if (headline && run === this.run) this.body.firstElementChild.after(element("p", headline));
    } catch (error) {
      if (run !== this.run) return;
      this.body.replaceChildren(element("p", error.message, "bad"));
    }
  }

  close() {
    const was = this.run;
    this.run = "";
    this.section.hidden = true;
    if (was) this.on.closed(was);
  }

  linksOf(about) {
    const links = element("nav");
    links.setAttribute("aria-label", "See this run");
    links.append(
      link(pageOf(about.name, "overview"), "Overview"),
      link(pageOf(about.name, "timeline"), "Timeline"),
    );
    if (this.links.perfetto) {
      const button = element("button", "In Perfetto");
      button.title = "The browser hands the traces to Perfetto's page; nothing is uploaded";
      button.onclick = () => this.perfetto(about, button);
      links.append(button);
    }
    if (this.links.xprof) {
      const base = this.links.xprof.replace(/\/+$/, "");
      const page = link(`${base}/?${new URLSearchParams({ run: about.run })}`, "In XProf");
      page.target = "_blank";
      page.rel = "noreferrer";
      links.append(page);
    }
    return links;
  }

  async perfetto(about, button) {
    button.disabled = true;
    this.on.said("Converting the traces for Perfetto…");
    try {
      await openInPerfetto(this.links.perfetto, new Api(about.name), about.run);
      this.on.said("");
    } catch (error) {
      this.on.failed(error);
    }
    button.disabled = false;
  }
}

function verdictOf({ manifest, problem, logdir }) {
  if (problem) return [element("p", problem, "bad")];
  if (!manifest)
    return [
      element(
        "p",
        "There is no strobe.json: another tool wrote this run, or its capture has not ended.",
        "soft",
      ),
    ];
  const facts = [
    ["Result", manifest.result],
    ["Why", manifest.message],
    ["Request", manifest.request],
    ["Job", manifest.job],
    ["Requester", manifest.requester],
    ["Start", manifest.instantMs ? moment(manifest.instantMs) : ""],
    ["Synchronized", manifest.synchronized ? "yes" : "no"],
    ["Skew", skew(manifest.skewNs, manifest.skewErrorNs)],
    ["Logdir", logdir],
  ];
  const list = element("dl");
  for (const [name, text] of facts) {
    if (text) list.append(element("dt", name), element("dd", text));
  }
  return [list];
}

function workersOf({ manifest }) {
  if (!manifest) return [];
  // What needs attention comes first.
  const rank = ({ outcome }) => (outcome === "Ok" ? 1 : 0);
  const workers = [...manifest.workers].sort((a, b) => rank(a) - rank(b));
  const roles = workers.some(({ role }) => role); // A training job has none.
  const rows = workers.map((worker) => [
    worker.name,
    ...(roles ? [worker.role] : []),
    worker.outcome,
    [worker.message, worker.remedy].filter(Boolean).join("\n"),
    count(worker.events),
    size(worker.bytes),
  ]);
  return [
    table(
      `Workers: ${manifest.ok} of ${count(workers.length)} Ok`,
      [
        "Worker",
        ...(roles ? ["Role"] : []),
        "Outcome",
        "What happened, and what to do",
        "Events",
        "Size",
      ],
      rows,
      roles ? [4, 5] : [3, 4],
    ),
  ];
}

function filesOf({ name, files, moreFiles }) {
  const rows = files.map((file) => [fileLink(name, file.name), size(file.bytes)]);
  const parts = [table("Files", ["File", "Size"], rows, [1])];
  if (moreFiles) parts.push(element("p", "There are more; strobe ls shows all of them.", "soft"));
  return parts;
}

function fileLink(run, file) {
  const anchor = link(new Api(run).url("file", { file }), file);
  anchor.download = file.split("/").pop();
  return anchor;
}

function link(url, text) {
  const anchor = element("a", text);
  anchor.href = url;
  return anchor;
}
