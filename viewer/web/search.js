// Finding events by name, over the whole run and all workers.
import { count } from "./format.js";
import { isSame } from "./selection.js";

const TYPING_MS = 200; // Rest after a key before the server is asked.
const MAX_HITS = 100;

const $ = (id) => document.getElementById(id);

export class Search {
  constructor(view, selection, panel) {
    this.view = view;
    this.selection = selection;
    this.panel = panel;
    this.field = $("find-text");
    this.summary = $("find-count");
    this.text = "";
    this.regex = false;
    this.matchCase = false;
    this.current = null; // The hit that "next" goes on from.
    this.timer = 0;
    this.listen();
  }

  listen() {
    $("find").onsubmit = (event) => {
      event.preventDefault();
      this.find(1);
    };
    $("find-previous").onclick = () => this.find(-1);
    this.field.oninput = () => {
      this.current = null;
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.find(0), TYPING_MS);
    };
    this.field.onkeydown = (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      clearTimeout(this.timer);
      this.find(event.shiftKey ? -1 : 1);
    };
    $("find-regex").onclick = () => {
      this.setRegex(!this.regex);
      this.current = null;
      this.find(0);
    };
    $("find-case").onclick = () => {
      this.matchCase = !this.matchCase;
      $("find-case").setAttribute("aria-pressed", String(this.matchCase));
      this.current = null;
      this.find(0);
    };
  }

  setRegex(regex) {
    this.regex = regex;
    $("find-regex").setAttribute("aria-pressed", String(regex));
  }

  /** Searches for what a link holds. */
  restore(text, regex) {
    this.field.value = text;
    this.setRegex(regex);
    this.find(0);
  }

  /** Lists what matches the field. direction: 1 goes to the next hit, -1 to the previous one. */
  async find(direction) {
    this.text = this.field.value;
    if (!this.text) return this.clear();
    if (!this.view.run) {
      this.summary.textContent = "the run is being read";
      return;
    }
    const matches = this.matcher();
    if (matches) this.view.renderer.setHighlight(matches);
    try {
      const { total, kinds, hits, wrapped } = await this.ask(direction);
      this.summary.textContent =
        total === 0
          ? "nothing found"
          : `${count(total)} events, ${count(kinds)} ${kinds === 1 ? "name" : "names"}`;
      if (hits.length === 0) return this.view.redraw();
      this.panel.events(
        "found",
        `${count(total)} events match “${this.text}”${wrapped ? ", from the other end" : ""}`,
        this.view.run.description,
        hits,
        null,
      );
      if (direction !== 0) {
        this.current = hits[0];
        await this.selection.jump(hits[0]);
      }
      this.view.settle();
    } catch (error) {
      this.summary.textContent = error.message;
    }
  }

  clear() {
    this.view.renderer.setHighlight(null);
    this.summary.textContent = "";
    this.panel.hide("found");
    this.view.settle();
  }

  /** The server's answer; from the other end of the run (`wrapped`) if no hit is left. */
  async ask(direction) {
    const { api, description } = this.view.run;
    const { current } = this;
    const question = {
      q: this.text,
      regex: this.regex ? 1 : 0,
      case: this.matchCase ? 1 : 0,
      limit: MAX_HITS,
      backwards: direction < 0 ? 1 : 0,
    };
    let from = this.view.begin;
    // Others may begin with the current hit: it is asked for again, to go on behind it.
    if (current && direction !== 0) from = current.beginPs + (direction > 0 ? 0 : 1);
    let { total, kinds, hits } = await api.get("find", { ...question, from });
    if (current && direction !== 0) {
      const place = hits.findIndex((hit) => isSame(hit, current));
      hits = hits.slice(place + 1);
    }
    const wrapped = hits.length === 0 && total > 0;
    if (wrapped) {
      from = direction < 0 ? description.endPs + 1 : description.beginPs;
      ({ hits } = await api.get("find", { ...question, from }));
    }
    return { total, kinds, hits, wrapped };
  }

  /**
   * (name) => boolean: matches names in sight as the server matches all. Null for a pattern that
   * only the server's RE2 understands.
   */
  matcher() {
    try {
      const source = this.regex ? this.text : this.text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
      const pattern = new RegExp(source, this.matchCase ? "u" : "iu");
      return (name) => pattern.test(name);
    } catch {
      return null;
    }
  }
}
