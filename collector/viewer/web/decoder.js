// Fetches and decodes tiles beside the page, so that frames are not held up.
import { decodeTiles } from "./decode.js";

addEventListener("message", async ({ data: { id, url } }) => {
  try {
    const answer = await fetch(url);
    if (!answer.ok) throw new Error((await answer.text()).trim());
    const { rows, texts, buffers } = decodeTiles(new Uint8Array(await answer.arrayBuffer()));
    postMessage({ id, rows, texts }, [...new Set(buffers)]);
  } catch (error) {
    postMessage({ id, error: error.message });
  }
});
