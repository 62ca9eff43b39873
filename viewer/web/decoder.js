// Fetches and decodes tiles beside the page, so that frames are not held up.
import { fetchTiles } from "./decode.js";

addEventListener("message", async ({ data: { id, url } }) => {
  try {
    const { rows, texts, buffers } = await fetchTiles(url);
    postMessage({ id, rows, texts }, [...new Set(buffers)]);
  } catch (error) {
    postMessage({ id, error: error.message });
  }
});
