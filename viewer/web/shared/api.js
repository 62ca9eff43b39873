// Requests to the server's API.

// What the server answers while it reads a run, and how long the page waits for it.
const UNREAD = 503;
const READING = "the run is being read";
const WAIT_MS = 500;
const MAX_WAITS = 60;

export class Api {
  /** `run`: the name of the run that is asked about; empty for the server's first. */
  constructor(run) {
    this.run = run;
    this.version = ""; // What the server calls the run's traces, once it has read them.
    this.align = ""; // What the workers are aligned by: "step:5", "collective", or their clocks.
    this.kept = new Map(); // Answers that once() has asked for, or is asking for.
  }

  url(path, parameters = {}) {
    const query = new URLSearchParams({ run: this.run });
    if (this.version) query.set("version", this.version);
    if (this.align) query.set("align", this.align);
    for (const [name, value] of Object.entries(parameters))
      query.set(name, typeof value === "number" ? whole(value) : value);
    return `api/${path}?${query}`;
  }

  /**
   * The answer, decoded from JSON; throws an Error with the server's message and `status` when it
   * refuses. Waits while a server that was started anew reads the run again. `signal`: an
   * AbortSignal that gives the question up.
   */
  async get(path, parameters, signal, waits = MAX_WAITS) {
    let answer;
    try {
      answer = await fetch(this.url(path, parameters), { signal });
    } catch {
      throw new Error("The server does not answer."); // Browsers say "Failed to fetch".
    }
    if (!answer.ok) {
      const text = (await answer.text()).trim() || `the server says ${answer.status}`;
      if (answer.status === UNREAD && text.startsWith(READING) && waits > 0) {
        await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
        return this.get(path, parameters, signal, waits - 1);
      }
      throw Object.assign(new Error(text), { status: answer.status });
    }
    return answer.json();
  }

  /** The answer of a question that several parts of a page have, asked once. */
  once(path) {
    if (!this.kept.has(path)) {
      const answer = this.get(path);
      answer.catch(() => this.kept.delete(path)); // So that it is tried again.
      this.kept.set(path, answer);
    }
    return this.kept.get(path);
  }
}

/** An integer as the server reads it: String() would write large ones with an exponent. */
function whole(number) {
  return BigInt(Math.round(number)).toString();
}

/** Row numbers as the server reads them: "0-3,7" for 0, 1, 2, 3 and 7. */
export function ranges(rows) {
  const sorted = [...rows].sort((a, b) => a - b);
  const parts = [];
  for (let i = 0; i < sorted.length;) {
    let j = i;
    while (j + 1 < sorted.length && sorted[j + 1] === sorted[j] + 1) ++j;
    parts.push(i === j ? `${sorted[i]}` : `${sorted[i]}-${sorted[j]}`);
    i = j + 1;
  }
  return parts.join(",");
}
