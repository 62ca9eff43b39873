// Tells that a run has other traces by now than those that the page shows.
import { Api } from "../shared/api.js";

/** `told(text)`. Asks when the page is looked at again: traces may have arrived meanwhile. */
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
