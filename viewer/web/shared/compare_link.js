// Links to the page that compares two runs, or two workers.

/** `a`, `b`: {run, worker}; an empty worker is all of them. */
export function compareLink(a, b) {
  const hash = new URLSearchParams({ a: a.run, b: b.run });
  if (a.worker) hash.set("wa", a.worker);
  if (b.worker) hash.set("wb", b.worker);
  return `compare.html#${hash}`;
}
