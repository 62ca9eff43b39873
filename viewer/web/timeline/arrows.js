// Draws many arrows into the picture's pixels. A canvas would need 20 µs for each curve; here ten
// thousand of them fit into a frame.

const BEND = 60; // Pixels at most by which a curve leaves its event before it turns.
const STEP = 24; // Pixels of a curve that are drawn as one straight line.
const MAX_STEPS = 24;
const HEAD = 5; // Length of an arrow's head in pixels.
const OUTSIDE = 4000; // Pixels beyond the edges; what lies further out is drawn from there.

/** [red, green, blue, alpha] of a colour such as "rgba(1,2,3,0.5)". */
function parse(color) {
  const [red, green, blue, alpha = 1] = color.match(/[\d.]+/g).map(Number);
  return [red, green, blue, alpha];
}

export class ArrowBrush {
  /**
   * Draws into `pixels`, lines of `width`, as ImageData holds them. `shade`: the share of the
   * colour's opacity.
   */
  constructor(pixels, width, ratio, color, shade) {
    // Signed, so that the engine computes with integers of 32 bits throughout.
    this.pixels = new Int32Array(pixels.buffer, pixels.byteOffset, pixels.length);
    this.width = width;
    this.height = pixels.length / width;
    this.ratio = ratio;
    const [red, green, blue, alpha] = parse(color);
    this.heads = true; // Whether arrows have heads.
    this.dots = 1; // One of this many pixels of a line is drawn.
    this.keep = Math.round((1 - alpha * shade) * 256); // The share of what is below, in 1/256.
    const share = 256 - this.keep;
    // Red and blue are blended at once, in two halves of a number.
    this.redBlue = Math.imul(red | (blue << 16), share);
    this.green = green * share;
  }

  /** An arrow from one place to another, in pixels of the picture; `thick` ones are two wide. */
  arrow(x0, y0, x1, y1, thick) {
    if (this.misses(x0, y0, x1, y1)) return;
    const { width, ratio } = this;
    const low = -OUTSIDE;
    const high = width + OUTSIDE;
    x0 = Math.min(high, Math.max(low, x0));
    x1 = Math.min(high, Math.max(low, x1));
    const far = Math.abs(x1 - x0);
    const bend = Math.min(BEND * ratio, Math.max(12 * ratio, far / 2));
    const steps = Math.min(MAX_STEPS, Math.ceil((far + Math.abs(y1 - y0)) / (STEP * ratio)) + 2);
    let x = x0;
    let y = y0;
    for (let i = 1; i <= steps; ++i) {
      const t = i / steps;
      const s = 1 - t;
      const nextX =
        s * s * s * x0 + 3 * s * s * t * (x0 + bend) + 3 * s * t * t * (x1 - bend) + t * t * t * x1;
      const nextY = y0 + (y1 - y0) * t * t * (3 - 2 * t);
      this.line(x, y, nextX, nextY);
      if (thick) this.line(x + 1, y + 1, nextX + 1, nextY + 1);
      x = nextX;
      y = nextY;
    }
    if (this.heads) this.head(x1, y1);
  }

  /** Whether nothing of an arrow between these places can be seen. */
  misses(x0, y0, x1, y1) {
    const { width, height, ratio } = this;
    const room = BEND * ratio;
    return (
      !(y0 >= 0 || y1 >= 0) ||
      !(y0 < height || y1 < height) ||
      Math.max(x0, x1) < -room ||
      Math.min(x0, x1) > width + room
    );
  }

  /** A triangle whose point is at (x, y). */
  head(x, y) {
    const { width, height, ratio } = this;
    const size = Math.round(HEAD * ratio);
    const px = Math.round(x);
    const py = Math.round(y);
    for (let i = 0; i < size; ++i) {
      const column = px - i;
      if (column < 0 || column >= width) continue;
      const half = (i * 3) / 5;
      const from = Math.max(0, Math.ceil(py - half));
      const to = Math.min(height - 1, Math.floor(py + half));
      for (let line = from; line <= to; ++line) this.blend(line * width + column);
    }
  }

  /** A straight line, without its first point. */
  line(x0, y0, x1, y1) {
    const { width, height } = this;
    const dx = x1 - x0;
    const dy = y1 - y0;
    const steep = Math.abs(dy) > Math.abs(dx);
    const length = steep ? Math.abs(dy) : Math.abs(dx);
    if (length < 0.5) return;
    let from = 1;
    let to = Math.floor(length);
    if (!this.holds(x0, y0) || !this.holds(x1, y1)) {
      // Only the part that lies in the picture; from 0 to 1 is all of it.
      const across = inside(x0, dx, width);
      const down = inside(y0, dy, height);
      from = Math.max(1, Math.ceil(Math.max(across[0], down[0]) * length));
      to = Math.min(to, Math.floor(Math.min(across[1], down[1]) * length));
    }
    const { pixels, keep, redBlue, green, dots } = this;
    // Fractions of 2^-16: integers are added faster than floats are rounded.
    const stepX = Math.round((dx / length) * 65536);
    const stepY = Math.round((dy / length) * 65536);
    // Dots of all lines are on the same lines or columns of pixels.
    const way = Math.sign(steep ? dy : dx);
    const along = Math.floor(steep ? y0 : x0) + way * from;
    from += (((-way * along) % dots) + dots) % dots;
    let x = Math.floor(x0 * 65536) + stepX * from;
    let y = Math.floor(y0 * 65536) + stepY * from;
    for (let i = from; i <= to; i += dots, x += stepX * dots, y += stepY * dots) {
      const column = x >> 16;
      const row = y >> 16;
      if (column < 0 || column >= width || row < 0 || row >= height) continue;
      // blend(), written out because calling it would take twice the time.
      const at = row * width + column;
      const below = pixels[at];
      pixels[at] =
        0xff000000 |
        (((Math.imul(below & 0xff00ff, keep) + redBlue) >>> 8) & 0xff00ff) |
        ((Math.imul((below >>> 8) & 0xff, keep) + green) & 0xff00);
    }
  }

  holds(x, y) {
    return x >= 0 && x < this.width && y >= 0 && y < this.height;
  }

  blend(at) {
    const { pixels, keep } = this;
    const below = pixels[at];
    const redBlue = (Math.imul(below & 0xff00ff, keep) + this.redBlue) >>> 8;
    const green = Math.imul((below >>> 8) & 0xff, keep) + this.green;
    pixels[at] = 0xff000000 | (redBlue & 0xff00ff) | (green & 0xff00);
  }
}

const NOTHING = [1, 0];
const ALL = [0, 1];

/** [from, to] of the values t for which begin + t * by lies in [0, size). */
function inside(begin, by, size) {
  if (by === 0) return begin >= 0 && begin < size ? ALL : NOTHING;
  const a = -begin / by;
  const b = (size - begin) / by;
  return a < b ? [a, b] : [b, a];
}
