// Finding events by name, full name and arguments, over the whole run and all workers. Names are
// answered at once; arguments are searched next, because every event has to be read for them.
import { count, several, time } from "../shared/format.js";
import { keyOf, MAX_COPIED } from "./panel.js";

const TYPING_MS = 200; // Rest after a key before the server is asked.
const MAX_HITS = 100;
const SLOTS = 1000; // Parts of the run in which hits are marked.

const $ = (id) => document.getElementById(id);

export class Search {
  /**
   * `jump(hit)` goes to a hit. `marked(hits)`: the parts of the run that have hits, {slotPs, marks},
   * or null.
   */
  constructor(view, jump, panel, marked) {
    this.view = view;
    this.jump = jump;
    this.panel = panel;
    this.marked = marked;
    this.field = $("find-text");
    this.summary = $("find-count");
    this.text = "";
    this.regex = false;
    this.matchCase = false;
    this.current = null; // The hit that "next" goes on from.
    this.number = null; // Which of all hits that is, from 1; null where it is not known.
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
    this.field.value = this.text = "";
    this.current = null;
    this.clear();
  }

  /** What was counted does not hold any more. */
  forget() {
    this.counted = "";
    this.totals = this.number = null;
    this.marked(null);
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
        this.forget();
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
        this.marked(whole);
        // A user who has gone on from the first hits keeps what they went to.
        const left = quick.hits.length > 0 && !this.panel.shows("found");
        this.show(left ? { ...whole, hits: [] } : whole, "");
      }
      if (direction === 0) return;
      const { from } = this.totals;
      const isFirst = !this.current && from === this.view.begin;
      const answer = await this.ask(direction, "all", false);
      if (number !== this.question) return;
      const { hits, wrapped } = answer;
      this.countOn(direction, wrapped, isFirst);
      this.show({ ...this.totals, hits, wrapped }, "");
      if (hits.length === 0) return;
      this.current = hits[0];
      await this.jump(hits[0]);
    } catch (error) {
      if (number === this.question) this.tell(error.message, "problem");
    }
  }

  /** Counts on to the next hit. `isFirst`: the search began where its hits were counted from. */
  countOn(direction, wrapped, isFirst) {
    const { total, before, unread } = this.totals;
    if (unread > 0) this.number = null;
    else if (wrapped) this.number = direction > 0 ? 1 : total;
    else if (isFirst) this.number = direction > 0 ? before + 1 : before;
    else if (this.number !== null && this.current) this.number += direction;
    else this.number = null;
  }

  /** Lists the hits by their start or the longest first: those after `last`, or the first ones. */
  async list(longest, last = null) {
    const number = this.abandon();
    if (!longest) this.current = last;
    this.number = null;
    try {
      const answer = longest
        ? await this.askLongest(last)
        : await this.ask(last ? 1 : 0, "all", false);
      if (number !== this.question) return;
      const { hits, wrapped } = answer;
      this.show({ ...this.totals, hits, wrapped, longest }, "");
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
  show({ total, kinds, names, hits, wrapped, unread, longest = false }, more) {
    const least = unread > 0 ? "at least " : "";
    const found = `${least}${several(total, "event")}`;
    const named = kinds > 0 ? `, ${several(kinds, "name")}` : "";
    const place = this.number !== null && total > 1 ? `${count(this.number)} of ` : "";
    this.tell(total === 0 && !more ? "nothing found" : `${place}${found}${named}${more}`);
    if (unread > 0)
      this.summary.title += `. The arguments of ${count(unread)} events were not searched.`;
    this.highlight([...names, ...hits.map((hit) => hit.name)]);
    if (hits.length > 0) {
      const from = wrapped ? ", from the other end" : "";
      const match = found === "1 event" ? "matches" : "match";
      const title = `${found} ${match} “${this.text}”${from}`;
      const next = () => this.list(longest, hits.at(-1));
      this.panel.events("found", title, this.view.run.description, hits, {
        longest,
        list: this.totals && ((wanted) => this.list(wanted)),
        more: this.totals && hits.length === MAX_HITS ? next : null,
        all: this.totals && (() => this.all(longest)),
        note: this.totals && lengthsText(this.totals.lengths),
      });
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
    this.forget();
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
    const { begin } = this.view;
    const question = {
      ...this.questionOf(where),
      count: counted ? 1 : 0,
      slots: counted && where === "all" ? SLOTS : 0,
      backwards: direction < 0 ? 1 : 0,
    };
    // Other events may begin together with the current hit, so the server is told which it is.
    const place = current && direction !== 0 ? { after: keyOf(current) } : { from: begin };
    const answer = await api.get("find", { ...question, ...place }, signal);
    const some = counted ? answer.total > 0 : true;
    answer.from = begin;
    answer.wrapped = answer.hits.length === 0 && some;
    if (answer.wrapped) {
      const from = direction < 0 ? description.endPs + 1 : description.beginPs;
      const again = { ...question, from, count: 0, slots: 0 };
      answer.hits = (await api.get("find", again, signal)).hits;
    }
    return answer;
  }

  /** Asks for the longest hits of the whole run; those after `last`, if there is one. */
  askLongest(last) {
    const place = last ? { after: keyOf(last) } : {};
    const question = { ...this.questionOf("all"), count: 0, order: "duration", ...place };
    return this.view.run.api.get("find", question, this.asking.signal);
  }

  /** All hits of the run, or as many as one answer has. */
  async all(longest) {
    const order = longest ? "duration" : "start";
    const question = { ...this.questionOf("all"), count: 0, order, limit: MAX_COPIED };
    return (await this.view.run.api.get("find", question)).hits;
  }

  questionOf(where) {
    const [regex, match] = [this.regex, this.matchCase].map(Number);
    return { q: this.text, regex, case: match, in: where, limit: MAX_HITS };
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

/** How long all hits are; empty if that is not known. */
function lengthsText(lengths) {
  if (!lengths) return "";
  const { count: number, leastPs, mostPs, sumPs } = lengths;
  if (number === 1 || mostPs === 0) return "";
  const all = `together ${time(sumPs)}.`;
  if (leastPs === mostPs) return `Each ${time(mostPs)}, ${all}`;
  return `${time(leastPs)} to ${time(mostPs)}, on average ${time(sumPs / number)}, ${all}`;
}
