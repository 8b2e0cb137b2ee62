/**
 * The colours of tokens. Two ramps in Oklab, where equal steps look equal: blue – plain – orange for what has a sign (told apart whatever cones
 * somebody has), plain – violet for the rest. Lightness stays on one side of the text, so that every token can be read, in light and in dark.
 */
export const buckets = 17;
export const middle = (buckets - 1) / 2;

export type Theme = "light" | "dark";
export type Ramp = "signed" | "plain";
type Rgb = readonly [number, number, number];

interface Look {
  text: Rgb;
  /** No colour: the surface that tokens stand on, in Oklab. */
  none: Lab;
  /** Lightness and chroma of full colour. */
  full: readonly [number, number];
}

type Lab = readonly [lightness: number, a: number, b: number];

const looks: Record<Theme, Look> = {
  light: { text: [0x14, 0x18, 0x20], none: [0.985, 0, 0], full: [0.73, 0.145] },
  dark: { text: [0xf4, 0xf6, 0xfa], none: [0.235, -0.001, -0.011], full: [0.5, 0.125] },
};
/** Degrees around the circle of hues. */
const hues = { below: 254, above: 58, plain: 308 };

export function colourOf(ramp: Ramp, bucket: number, theme: Theme): { background: Rgb; text: Rgb } {
  const { text, none, full } = looks[theme];
  const along = ramp === "signed" ? Math.abs(bucket - middle) / middle : bucket / (buckets - 1);
  const hue = ramp === "plain" ? hues.plain : bucket < middle ? hues.below : hues.above;
  const angle = (hue * Math.PI) / 180;
  const end: Lab = [full[0], full[1] * Math.cos(angle), full[1] * Math.sin(angle)];
  const [l, a, b] = none.map((own, i) => own + (end[i]! - own) * along) as unknown as Lab;
  return { background: fromOklab(l, a, b), text };
}

/** Relative luminance contrast as WCAG 2 defines it: 4.5 is its AA. */
export function contrast(a: Rgb, b: Rgb): number {
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

export const hex = (colour: Rgb) => `#${colour.map((part) => part.toString(16).padStart(2, "0")).join("")}`;

export const className = (ramp: Ramp, bucket: number) => `${ramp}-${bucket}`;

/** A rule for each colour; which of its two a page takes is said by its `color-scheme`. */
export function colourRules(): string[] {
  return (["signed", "plain"] as const).flatMap((ramp) =>
    Array.from({ length: buckets }, (_, bucket) => {
      const [light, dark] = [colourOf(ramp, bucket, "light"), colourOf(ramp, bucket, "dark")];
      const both = (of: "background" | "text") => `light-dark(${hex(light[of])}, ${hex(dark[of])})`;
      return `.${className(ramp, bucket)} { background-color: ${both("background")}; color: ${both("text")} }`;
    }),
  );
}

/** By the matrices of Björn Ottosson's Oklab; what no screen shows is cut at its edge. */
function fromOklab(lightness: number, a: number, b: number): Rgb {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    screen(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    screen(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    screen(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

function screen(linear: number): number {
  const inside = Math.min(1, Math.max(0, linear));
  return Math.round(255 * (inside <= 0.0031308 ? 12.92 * inside : 1.055 * inside ** (1 / 2.4) - 0.055));
}

function luminance(colour: Rgb): number {
  const [r, g, b] = colour.map((part) => {
    const own = part / 255;
    return own <= 0.04045 ? own / 12.92 : ((own + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
