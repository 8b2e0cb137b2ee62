/**
 * A number of JSON from its bytes. Where its digits make a whole number that a double holds, and the power of ten is one too, one division
 * or multiplication is exact (Clinger 1990). With more digits it may be off by a rounding or two and by what was left out, which matters to
 * a float32 only next to the middle between two of them: there, and for exponents beyond, the text is read by Number().
 */
const powers = Float64Array.from({ length: 23 }, (_, i) => Number(`1e${i}`));
const mostExact = 2 ** 53;

/** Where the number that was scanned last ends; -1: there was none. One for all: an object a number would cost more than the number. */
export let numberEnd = -1;

export function scanNumber(bytes: Uint8Array, from: number): number {
  let at = from;
  let byte = bytes[at]!;
  const negative = byte === 0x2d;
  if (negative) byte = bytes[++at]!;
  const first = at;
  let high = 0;
  while (byte >= 0x30 && byte <= 0x39 && at < first + 9) {
    high = (Math.imul(high, 10) + byte - 0x30) | 0;
    byte = bytes[++at]!;
  }
  const whole = at - first;
  if (whole === 0 || (whole > 1 && bytes[first] === 0x30)) return none();
  if (byte !== 0x2e && byte !== 0x65 && byte !== 0x45) {
    if (byte >= 0x30 && byte <= 0x39) return slowly(bytes, from);
    numberEnd = at;
    return negative ? -high : high;
  }
  let digits = high;
  let exponent = 0;
  let leftOut = 0;
  if (byte === 0x2e) {
    byte = bytes[++at]!;
    const point = at;
    // Nine digits in all: what a whole number of 32 bits holds.
    const half = point + 9 - whole;
    while (byte >= 0x30 && byte <= 0x39 && at < half) {
      high = (Math.imul(high, 10) + byte - 0x30) | 0;
      byte = bytes[++at]!;
    }
    if (at === point && !(byte >= 0x30 && byte <= 0x39)) return none();
    digits = high;
    if (at === half) {
      let low = 0;
      while (byte >= 0x30 && byte <= 0x39 && at < half + 8) {
        low = (Math.imul(low, 10) + byte - 0x30) | 0;
        byte = bytes[++at]!;
      }
      digits = high * powers[at - half]! + low;
    }
    exponent = point - at;
    while (byte >= 0x30 && byte <= 0x39) {
      leftOut++;
      byte = bytes[++at]!;
    }
  }
  if (byte === 0x65 || byte === 0x45) {
    byte = bytes[++at]!;
    const down = byte === 0x2d;
    if (down || byte === 0x2b) byte = bytes[++at]!;
    const start = at;
    let power = 0;
    while (byte >= 0x30 && byte <= 0x39 && at < start + 5) {
      power = power * 10 + byte - 0x30;
      byte = bytes[++at]!;
    }
    if (at === start) return none();
    if (byte >= 0x30 && byte <= 0x39) return slowly(bytes, from);
    exponent += down ? -power : power;
  }
  numberEnd = at;
  if (digits === 0 && leftOut === 0) return negative ? -0 : 0;
  if (exponent < -22 || exponent > 22) return slowly(bytes, from);
  const unit = powers[exponent < 0 ? -exponent : exponent]!;
  const value = exponent < 0 ? digits / unit : digits * unit;
  if (digits > mostExact || leftOut > 0) {
    const off = value * 2 ** -50 + (leftOut > 0 ? 1 / unit : 0);
    if (Math.fround(value - off) !== Math.fround(value + off)) return slowly(bytes, from);
  }
  return negative ? -value : value;
}

function none(): number {
  numberEnd = -1;
  return Number.NaN;
}

/** One that was scanned before, as it was written; NaN for null. */
export function exactNumber(bytes: Uint8Array, from: number): number {
  return slowly(bytes, from);
}

/** By its text. */
function slowly(bytes: Uint8Array, from: number): number {
  let to = from;
  while (isPart(bytes[to]!)) to++;
  const text = String.fromCharCode(...bytes.subarray(from, Math.min(to, from + 1000)));
  if (!/^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(text)) return none();
  numberEnd = to;
  return Number(text);
}

const isPart = (byte: number) =>
  (byte >= 0x30 && byte <= 0x39) || byte === 0x2b || byte === 0x2d || byte === 0x2e || byte === 0x45 || byte === 0x65;
