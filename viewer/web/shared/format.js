// Writes times, counts and amounts for people. Times are picoseconds.

const UNITS = [
  [1e12, "s"],
  [1e9, "ms"],
  [1e6, "µs"],
  [1e3, "ns"],
  [1, "ps"],
];

/** "12.345 ms": at most `digits` decimals, without trailing zeros. */
export function time(ps, digits = 3) {
  const size = Math.abs(ps);
  const [unit, name] = UNITS.find(([u]) => size >= u) ?? UNITS[4];
  return `${trim((ps / unit).toFixed(name === "ps" ? 0 : digits))} ${name}`;
}

/** "12.345678901 ms": as many decimals as the time has. A division would round long times. */
export function exact(ps) {
  const [unit, name] = UNITS.find(([u]) => Math.abs(ps) >= u) ?? UNITS[4];
  const size = Math.abs(Math.round(ps));
  const rest = size % unit;
  const decimals = String(rest).padStart(Math.round(Math.log10(unit)), "0");
  const digits = `${(size - rest) / unit}${unit > 1 ? `.${decimals}` : ""}`;
  return `${ps < 0 ? "-" : ""}${trim(digits)} ${name}`;
}

/** A time on the axis: as many decimals as ticks need that are `step` apart. */
export function tick(ps, step) {
  const [unit, name] = UNITS.find(([u]) => Math.max(Math.abs(ps), step) >= u) ?? UNITS[4];
  const digits = Math.max(0, Math.ceil(Math.log10(unit / step) - 1e-9));
  return `${(ps / unit).toFixed(digits)} ${name}`;
}

/** The first of the lines, and how many more there are. */
export function firstLines(lines, most = 8) {
  const rest = lines.length - most;
  return [...lines.slice(0, most), ...(rest > 0 ? [`and ${count(rest)} more`] : [])].join("\n");
}

/** "1,234,567", with at most three decimals. Not toLocaleString(), which takes 20 ms the first time. */
export function count(number) {
  const [whole, part] = String(Math.round(number * 1000) / 1000).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return part ? `${grouped}.${part}` : grouped;
}

/** "12.5 %", "3.25 %". */
export function percent(share) {
  return `${(share * 100).toFixed(share < 0.0995 ? 2 : 1)} %`;
}

/** "1,234 rows", "1 row". */
export function several(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

/** "875.3 MiB": with a binary prefix. */
export function bytes(number) {
  const scale = [
    [2 ** 40, "TiB"],
    [2 ** 30, "GiB"],
    [2 ** 20, "MiB"],
    [2 ** 10, "KiB"],
  ].find(([s]) => Math.abs(number) >= s);
  return scale ? `${trim((number / scale[0]).toFixed(1))} ${scale[1]}` : `${count(number)} B`;
}

/** How the values of a counter are written: those of memory as bytes. */
export function writerOf(counter) {
  return /memory|bytes|^Total (Allocated|Reserved)$/i.test(counter) ? bytes : count;
}

/** "12.3 GB/s": with an SI prefix before the unit. */
export function amount(number, unit) {
  const scale = [
    [1e15, "P"],
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ].find(([s]) => number >= s);
  return scale
    ? `${trim((number / scale[0]).toFixed(2))} ${scale[1]}${unit}`
    : `${trim(number.toFixed(2))} ${unit}`;
}

function trim(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
