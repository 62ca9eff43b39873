// The columns of a Sheet. Times are picoseconds; what the trace does not tell is null.
import { bytes, count, percent, time } from "./format.js";
import { shortKernel } from "./short_name.js";

/**
 * A column is {head, title, of(row), write(value), number, csv: [head, (value) => ...]}. of() is a
 * number, a text or null; `number`: it is shown to the right. Rows are sorted by rank(row), if there is
 * one, instead of what is shown. With `leads`, rows lead somewhere by what is shown.
 */
export function column(head, of, write = String, more = {}) {
  return { head, title: "", of, write, number: false, csv: [head, (value) => value], ...more };
}

/** `of`: a function, or the name of a row's value. */
function valueOf(of) {
  return typeof of === "string" ? (row) => row[of] ?? null : of;
}

export function textOf(head, key, title = "") {
  return column(head, (row) => row[key] || null, String, { title });
}

/** What a row is of, which leads to it; a kernel's name is shown, and sorted, by its short form. */
export const NAME = {
  ...textOf("Name", "name"),
  leads: true,
  write: shortKernel,
  rank: ({ name }) => shortKernel(name),
};

export function countOf(head, of, title = "") {
  return column(head, valueOf(of), count, { title, number: true });
}

/** Copied as microseconds, in which PyTorch's own tables are. */
export function timeOf(head, of, title = "", more = {}) {
  const csv = [`${head} (us)`, (ps) => ps / 1e6];
  const write = (ps) => (ps === 0 ? "0" : time(ps));
  return column(head, valueOf(of), write, { title, number: true, csv, ...more });
}

export function percentOf(head, of, title = "", more = {}) {
  const csv = [`${head} (%)`, (share) => share * 100];
  return column(head, of, percent, { title, number: true, csv, ...more });
}

export function bytesOf(head, of, title = "", more = {}) {
  const csv = [`${head} (bytes)`, (value) => value];
  return column(head, valueOf(of), bytes, { title, number: true, csv, ...more });
}
