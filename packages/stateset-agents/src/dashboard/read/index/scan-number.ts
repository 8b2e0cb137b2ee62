/**
 * A number of JSON from its bytes. Up to 15 digits and a power of ten that a double holds, one multiplication or division is exact
 * (Clinger 1990); with more digits it may be off by a few parts in 10^15, which matters to a float32 only next to the middle between two
 * of them: there, and for exponents beyond, the text is read by Number().
 */
export interface ScannedNumber {
  value: number;
  /** Where it ends; -1: no number is here. */
  end: number;
}

const powers = Float64Array.from({ length: 23 }, (_, i) => Number(`1e${i}`));
/** More than the digits that are left out and two roundings can make. */
const slack = 2 ** -49;

/** Into `to`, which is used over and over: an object a number would cost more than the number. */
export function scanNumber(bytes: Uint8Array, from: number, to: ScannedNumber): void {
  let at = from;
  const negative = bytes[at] === 0x2d;
  if (negative) at++;
  let mantissa = 0;
  let digits = 0;
  let exponent = 0;
  const first = at;
  let byte = bytes[at]!;
  while (byte >= 0x30 && byte <= 0x39) {
    if (digits < 16) {
      mantissa = mantissa * 10 + (byte - 0x30);
      if (mantissa > 0) digits++;
    } else exponent++;
    byte = bytes[++at]!;
  }
  const whole = at - first;
  if (whole === 0 || (whole > 1 && bytes[first] === 0x30)) {
    to.end = -1;
    return;
  }
  if (byte === 0x2e) {
    byte = bytes[++at]!;
    const point = at;
    while (byte >= 0x30 && byte <= 0x39) {
      if (digits < 16) {
        mantissa = mantissa * 10 + (byte - 0x30);
        if (mantissa > 0) digits++;
        exponent--;
      }
      byte = bytes[++at]!;
    }
    if (at === point) {
      to.end = -1;
      return;
    }
  }
  if (byte === 0x65 || byte === 0x45) {
    byte = bytes[++at]!;
    const down = byte === 0x2d;
    if (down || byte === 0x2b) byte = bytes[++at]!;
    const start = at;
    let power = 0;
    while (byte >= 0x30 && byte <= 0x39) {
      if (power < 10_000) power = power * 10 + (byte - 0x30);
      byte = bytes[++at]!;
    }
    if (at === start) {
      to.end = -1;
      return;
    }
    exponent += down ? -power : power;
  }
  to.end = at;
  if (mantissa === 0) {
    to.value = negative ? -0 : 0;
    return;
  }
  if (exponent < -22 || exponent > 22) {
    to.value = exactly(bytes, from, at);
    return;
  }
  const value = exponent < 0 ? mantissa / powers[-exponent]! : mantissa * powers[exponent]!;
  if (digits > 15 && Math.fround(value * (1 - slack)) !== Math.fround(value * (1 + slack)))
    to.value = exactly(bytes, from, at);
  else to.value = negative ? -value : value;
}

function exactly(bytes: Uint8Array, from: number, to: number): number {
  return Number(String.fromCharCode(...bytes.subarray(from, to)));
}
