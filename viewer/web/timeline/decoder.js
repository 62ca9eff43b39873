// A worker that fetches and decodes tiles, so that decoding does not delay frames. Takes {id, url},
// answers {id, rows, texts} or {id, error}.
import { fetchTiles } from "./decode.js";

addEventListener("message", async ({ data: { id, url } }) => {
  try {
    const { rows, texts, buffers } = await fetchTiles(url);
    postMessage({ id, rows, texts }, [...new Set(buffers)]); // Moved, not copied.
  } catch (error) {
    postMessage({ id, error: error.message });
  }
});
