// Elements of a page that hold text. Texts come from traces, which may be hostile, so they are only
// ever set as text.

export function element(tag, text = "", className = "") {
  const node = document.createElement(tag);
  node.textContent = text;
  if (className) node.className = className;
  return node;
}

function cell(tag, value) {
  const node = document.createElement(tag);
  if (value instanceof Node) node.append(value);
  else node.textContent = value;
  return node;
}

/**
 * A cell is text or a node. Without `heads`, the first column names the second. `numbers`: the columns
 * that stand to the right.
 */
export function table(caption, heads, rows, numbers = []) {
  const node = document.createElement("table");
  node.append(element("caption", caption));
  if (heads) {
    const head = node.createTHead().insertRow();
    for (const text of heads) {
      const th = element("th", text);
      th.scope = "col";
      head.append(th);
    }
  }
  const body = node.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((value, i) => {
      const td = cell(!heads && i === 0 ? "th" : "td", value);
      if (td.tagName === "TH") td.scope = "row";
      line.append(td);
    });
  }
  for (const line of node.rows)
    for (const column of numbers) line.cells[column]?.classList.add("number");
  return node;
}

/** Lets a table that is wider than the page scroll by itself. */
export function scrolled(node) {
  const box = element("div", "", "scrolled");
  box.tabIndex = 0; // So that the keyboard can scroll it.
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", node.caption.textContent);
  box.append(node);
  return box;
}

export function listOf(texts) {
  const node = element("ul");
  node.append(...texts.map((text) => element("li", text)));
  return node;
}

/** Says in `node` what colours mean. `parts`: [class of the colour's swatch, text]. */
export function legend(parts, node = element("ul")) {
  node.classList.add("legend");
  node.replaceChildren(
    ...parts.map(([part, text]) => {
      const entry = element("li", text);
      entry.prepend(element("span", "", `swatch ${part}`));
      return entry;
    }),
  );
  return node;
}
