// Finding events by name, full name and arguments, over the whole run and all workers. Names are
// answered at once; arguments are searched next, because every event has to be read for them.
import { count } from "../shared/format.js";
import { keyOf } from "./panel.js";

const TYPING_MS = 200; // Rest after a key before the server is asked.
const MAX_HITS = 100;

const $ = (id) => document.getElementById(id);

export class Search {
  /** `jump(hit)` goes to a hit. */
  constructor(view, jump, panel) {
    this.view = view;
    this.jump = jump;
    this.panel = panel;
    this.field = $("find-text");
    this.summary = $("find-count");
    this.text = "";
    this.regex = false;
    this.matchCase = false;
    this.current = null; // The hit that "next" goes on from.
    this.timer = 0;
    this.question = 0; // Number of the latest question; older answers are dropped.
    this.asking = new AbortController(); // Gives the latest question up.
    this.counted = ""; // What `totals` belongs to; see key().
    this.totals = null; // The answer that counts all hits.
    this.listen();
  }

  listen() {
    $("find").onsubmit = (event) => {
      event.preventDefault();
      this.find(1);
    };
    $("find-previous").onclick = () => this.find(-1);
    this.field.oninput = () => {
      this.abandon();
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

  /** Gives up what is being asked, whose answer may be long in coming; the number of the next. */
  abandon() {
    this.asking.abort();
    this.asking = new AbortController();
    return ++this.question;
  }

  /** Forgets what was searched for: another run is shown. */
  reset() {
    clearTimeout(this.timer);
    this.abandon();
    this.field.value = this.text = this.counted = "";
    this.current = this.totals = null;
    this.clear();
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
    const number = this.abandon();
    if (!this.text) return this.clear();
    if (!this.view.run) {
      return this.tell("the run is being read");
    }
    try {
      if (direction === 0 || this.counted !== this.key()) {
        const quick = await this.ask(0, "texts");
        if (number !== this.question) return;
        this.show(quick, "; arguments are being searched");
        // While the user types on, the server need not read all events for each letter.
        if (direction === 0) await new Promise((resolve) => setTimeout(resolve, TYPING_MS));
        if (number !== this.question) return;
        const whole = await this.ask(0, "all");
        if (number !== this.question) return;
        this.counted = this.key();
        this.totals = whole;
        // A user who has gone on from the first hits keeps what they went to.
        const left = quick.hits.length > 0 && !this.panel.shows("found");
        this.show(left ? { ...whole, hits: [] } : whole, "");
      }
      if (direction === 0) return;
      const answer = await this.ask(direction, "all", false);
      if (number !== this.question) return;
      this.show({ ...this.totals, hits: answer.hits, wrapped: answer.wrapped }, "");
      if (answer.hits.length === 0) return;
      this.current = answer.hits[0];
      await this.jump(answer.hits[0]);
    } catch (error) {
      if (number === this.question) this.tell(error.message, "problem");
    }
  }

  /** Lists the hits after the last one of a list. */
  async goOn(last) {
    const number = this.abandon();
    this.current = last;
    try {
      const answer = await this.ask(1, "all", false);
      if (number !== this.question) return;
      this.show({ ...this.totals, hits: answer.hits, wrapped: answer.wrapped }, "");
    } catch (error) {
      if (number === this.question) this.tell(error.message, "problem");
    }
  }

  /** Writes into the field, where there may be room for the begin only, or below it. */
  tell(text, look = "") {
    this.summary.textContent = this.summary.title = text;
    this.summary.className = look;
  }

  /** What is searched for; totals are kept for it. */
  key() {
    return JSON.stringify([this.text, this.regex, this.matchCase, this.view.run.api.run]);
  }

  /** Shows an answer of ask(); `more`: what is still to come. */
  show({ total, kinds, names, hits, wrapped, unread }, more) {
    const least = unread > 0 ? "at least " : "";
    const found = `${least}${count(total)} ${total === 1 ? "event" : "events"}`;
    const named = kinds > 0 ? `, ${count(kinds)} ${kinds === 1 ? "name" : "names"}` : "";
    this.tell(total === 0 && !more ? "nothing found" : `${found}${named}${more}`);
    if (unread > 0)
      this.summary.title += `. The arguments of ${count(unread)} events were not searched.`;
    this.highlight([...names, ...hits.map((hit) => hit.name)]);
    if (hits.length > 0) {
      const from = wrapped ? ", from the other end" : "";
      const title = `${found} match “${this.text}”${from}`;
      const more = hits.length === MAX_HITS && this.totals ? () => this.goOn(hits.at(-1)) : null;
      this.panel.events("found", title, this.view.run.description, hits, more);
    } else if (!more && this.panel.shows("found")) {
      this.panel.hide("found");
    }
    this.view.settle();
  }

  /** Dims all names but those that match or are in `others`. */
  highlight(others) {
    const matches = this.matcher() ?? (() => false);
    const known = new Set(others);
    this.view.renderer.setHighlight((name) => known.has(name) || matches(name));
  }

  clear() {
    this.view.renderer.setHighlight(null);
    this.tell("");
    this.panel.hide("found");
    this.view.settle();
  }

  /**
   * Asks the server for hits in this direction. If none is left, asks again from the other end of the
   * run, and the answer has `wrapped`. `where`: what is searched; see FindIn in viewer/answers/find.h.
   */
  async ask(direction, where, counted = true) {
    const { api, description } = this.view.run;
    const { current } = this;
    const { signal } = this.asking;
    const question = {
      q: this.text,
      regex: this.regex ? 1 : 0,
      case: this.matchCase ? 1 : 0,
      in: where,
      count: counted ? 1 : 0,
      limit: MAX_HITS,
      backwards: direction < 0 ? 1 : 0,
    };
    // Other events may begin together with the current hit, so the server is told which it is.
    const place =
      current && direction !== 0 ? { after: keyOf(current) } : { from: this.view.begin };
    const answer = await api.get("find", { ...question, ...place }, signal);
    const some = counted ? answer.total > 0 : true;
    answer.wrapped = answer.hits.length === 0 && some;
    if (answer.wrapped) {
      const from = direction < 0 ? description.endPs + 1 : description.beginPs;
      answer.hits = (await api.get("find", { ...question, from, count: 0 }, signal)).hits;
    }
    return answer;
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
