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

/** A cell is text or a node. Without `heads`, the first column names the second. */
export function table(caption, heads, rows) {
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
  return node;
}
