// The view as a PNG file. The rows' names stand beside the canvas, so they are written once more.
import { save } from "../shared/browser.js";

/** Draws the canvas with the names, `width` pixels wide, to the left of it. */
function draw(view, width) {
  const { canvas, ratio, theme, height } = view.renderer;
  const picture = document.createElement("canvas");
  picture.width = canvas.width + width * ratio;
  picture.height = canvas.height;
  const context = picture.getContext("2d");
  context.fillStyle = `rgb(${theme.band})`;
  context.fillRect(0, 0, picture.width, picture.height);
  context.drawImage(canvas, width * ratio, 0);
  context.scale(ratio, ratio);
  context.fillStyle = theme.text;
  context.font = "12px system-ui, sans-serif";
  context.textBaseline = "top";
  context.beginPath();
  context.rect(0, 0, width - 6, height);
  context.clip();
  for (const { items, top, from } of view.bands()) {
    for (const item of items) {
      if (top + item.y < from - 2) continue;
      const text =
        item.type === "section" ? item.section.title : `    ${view.run.layout.nameOf(item.row)}`;
      context.fillText(text, 6, top + item.y + 2);
    }
  }
  return picture;
}

/** Lets the browser save the view; `labelWidth`: width of the names, in pixels. */
export async function savePicture(view, labelWidth) {
  const picture = draw(view, labelWidth);
  const blob = await new Promise((resolve) => picture.toBlob(resolve, "image/png"));
  save(blob, `${view.run.api.run || "trace"}.png`);
}
