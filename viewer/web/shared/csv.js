// Tables as CSV, for spreadsheets and programs (RFC 4180).

/** `columns`: as column.js makes them. */
export function csvOf(columns, rows) {
  const lines = [columns.map(({ csv: [head] }) => cell(head))];
  for (const row of rows)
    lines.push(
      columns.map(({ of, csv: [, value] }) => {
        const told = of(row);
        return told === null ? "" : cell(value(told));
      }),
    );
  return lines.map((line) => `${line.join(",")}\r\n`).join("");
}

function cell(value) {
  if (typeof value === "number") return String(value);
  // Names come from traces. A spreadsheet would run one that begins like a formula.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
