// Waits until the server has read a run, and tells that it has other traces by now.
import { Api } from "../shared/api.js";
import { count } from "../shared/format.js";

export class Loading {
  /** `bar`: the progress bar; its first child is the bar itself, its last the text. */
  constructor(bar) {
    this.bar = bar;
    this.latest = null; // The Api of the run that was asked for last.
  }

  /**
   * {api, description} of a run once it is read; null when another was asked for meanwhile, and
   * without a name if the list of runs is to be shown instead.
   */
  async open(run, align = "") {
    const api = new Api(run);
    api.align = align;
    this.latest = api;
    for (;;) {
      const answer = await this.ask(api);
      if (!answer || answer.opensList) return null;
      if (!answer.loading) {
        this.bar.hidden = true;
        api.run = answer.run; // Without a name, the server has chosen one.
        api.version = answer.version;
        return { api, description: answer };
      }
      this.show(answer);
    }
  }

  /** The server's answer or error; null when another run was asked for meanwhile. */
  async ask(api) {
    try {
      // The server waits a moment before it says "loading". Without a name, this is the question
      // that page/index.html has preloaded.
      const answer = await api.get("run", api.run ? {} : { or: "list" });
      return api === this.latest ? answer : null;
    } catch (error) {
      if (api !== this.latest) return null;
      this.bar.hidden = true;
      throw error;
    }
  }

  show({ done, total }) {
    const percent = total ? (100 * done) / total : 0;
    this.bar.hidden = false;
    this.bar.firstElementChild.style.width = `${percent}%`;
    this.bar.setAttribute("aria-valuenow", Math.round(percent));
    this.bar.lastElementChild.textContent = total
      ? `Reading ${count(total)} events, ${Math.round(percent)} %`
      : "Opening the traces…";
  }
}

/** Tells by told(text) that a run has other traces by now than the page shows. Asks when the page is looked at again: traces may have arrived meanwhile. */
export function watchArrivals(view, told) {
  document.addEventListener("visibilitychange", () => tell(view, told));
}

async function tell(view, told) {
  const { run } = view;
  if (!run) return;
  const api = new Api(run.api.run); // About the run as it is now, whatever its version.
  const isLate = () => document.hidden || run !== view.run;
  try {
    while (!isLate()) {
      const { loading, version } = await api.get("run");
      if (loading) continue; // The server has waited a moment.
      if (version !== run.description.version && !isLate())
        told("More traces have arrived: reload to see them.");
      return;
    }
  } catch {
    // What is missing in sight is asked for again, and tells why it cannot be loaded.
  }
}
