// Colours of the page's themes and of events. An event's colour follows from its name alone, so
// that it is the same in every run and on every machine.

const HUES = [210, 28, 140, 265, 48, 340, 175, 95, 230, 10, 120, 295, 60, 195, 320, 160];
// Saturation in percent, and relative luminance as WCAG defines it. From 0.22 to 0.29, a colour has
// a contrast of at least 3:1 against both backgrounds, and 4.5:1 against the text on it.
const TONES = [
  [58, 0.28],
  [42, 0.25],
  [68, 0.23],
];

export const THEMES = {
  light: {
    back: [255, 255, 255],
    band: [248, 249, 250],
    busy: [90, 122, 170],
    grid: "#8a94a3",
    lines: [228, 231, 235],
    text: "#1b1f24",
    soft: "#545d68",
    line: "#c9ced6",
    accent: "#0b57d0",
    mark: "#b3261e",
    shade: "rgba(11,87,208,0.12)",
    arrow: "rgba(179,38,30,0.55)",
  },
  dark: {
    back: [20, 23, 28],
    band: [26, 30, 37],
    busy: [112, 146, 196],
    grid: "#5d6878",
    lines: [38, 44, 53],
    text: "#e6e9ee",
    soft: "#a3adba",
    line: "#3a414d",
    accent: "#8ab4f8",
    mark: "#ff8a80",
    shade: "rgba(138,180,248,0.16)",
    arrow: "rgba(255,138,128,0.6)",
  },
};

const known = new Map(); // Colours by name.

/** [red, green, blue] of a colour in the page's style, such as "--compute". */
export function styleColor(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => Number.parseInt(text.slice(at, at + 2), 16));
}

/** The colour of a step: neighbours have other hues. */
export function colorOfStep(number) {
  const hue = HUES[((number % HUES.length) + HUES.length) % HUES.length];
  return ofLuminance(hue, TONES[0][0] / 100, TONES[0][1]);
}

/** [red, green, blue], 0 to 255: chosen by a hash (FNV-1a) of the name. */
export function colorOf(name) {
  let color = known.get(name);
  if (color) return color;
  let hash = 2166136261;
  for (let i = 0; i < name.length; ++i) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  hash ^= hash >>> 15;
  hash >>>= 0;
  const [saturation, target] = TONES[Math.floor(hash / HUES.length) % TONES.length];
  color = ofLuminance(HUES[hash % HUES.length], saturation / 100, target);
  known.set(name, color);
  return color;
}

/** The colour of this hue and saturation that has the luminance. */
function ofLuminance(hue, saturation, target) {
  let low = 0;
  let high = 1;
  for (let i = 0; i < 12; ++i) {
    const middle = (low + high) / 2;
    if (luminance(fromHsl(hue, saturation, middle)) < target) low = middle;
    else high = middle;
  }
  return fromHsl(hue, saturation, (low + high) / 2);
}

/** Relative luminance of a colour, 0 to 1 (WCAG 2.2). */
export function luminance(color) {
  const [red, green, blue] = color.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function fromHsl(hue, saturation, lightness) {
  const a = saturation * Math.min(lightness, 1 - lightness);
  return [0, 8, 4].map((n) => {
    const k = (n + hue / 30) % 12;
    return Math.round(255 * (lightness - a * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
  });
}

/** A colour as a little-endian machine stores an opaque RGBA pixel. */
export function pixel([red, green, blue]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

export function mix(color, back, share) {
  return color.map((value, i) => Math.round(back[i] + (value - back[i]) * share));
}
