// Hands a run's traces to Perfetto's page. The browser passes them from one window to the other;
// nothing is uploaded.

const PING_MS = 100;
const GIVE_UP_MS = 60_000;

/**
 * Opens Perfetto's page at `address` with the traces of a run; `api` asks about it. Must be called
 * while a click is handled, or the browser blocks the window.
 */
export async function openInPerfetto(address, api, title) {
  const { origin } = new URL(address);
  const page = window.open(address);
  if (!page) throw new Error("The browser blocked Perfetto's window.");
  try {
    const [buffer] = await Promise.all([tracesOf(api), ready(page, origin)]);
    page.postMessage({ perfetto: { buffer, title, fileName: `${title}.pftrace` } }, origin, [
      buffer,
    ]);
  } catch (error) {
    page.close();
    throw error;
  }
}

async function tracesOf(api) {
  const answer = await fetch(api.url("perfetto"));
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.arrayBuffer();
}

/** Resolves once the page answers: it does not hear messages that come before it has loaded. */
function ready(page, origin) {
  return new Promise((resolve, reject) => {
    const end = (settle, value) => {
      clearInterval(timer);
      removeEventListener("message", hear);
      settle(value);
    };
    const hear = (event) => {
      if (event.source === page && event.origin === origin && event.data === "PONG") end(resolve);
    };
    const began = Date.now();
    const timer = setInterval(() => {
      if (page.closed) return end(reject, new Error("Perfetto's window was closed."));
      if (Date.now() - began > GIVE_UP_MS)
        return end(reject, new Error(`Perfetto's page at ${origin} does not answer.`));
      page.postMessage("PING", origin);
    }, PING_MS);
    addEventListener("message", hear);
  });
}
