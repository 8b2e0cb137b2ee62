/** A small seeded generator (xoshiro128**, Blackman & Vigna 2018). Its state is plain data, so a checkpoint can hold it. */
export interface Random {
  /** Uniform in [0, 1), 32 bits. */
  next(): number;
  /** Uniform integer in [0, n). */
  below(n: number): number;
  shuffled<T>(items: readonly T[]): T[];
  state(): [number, number, number, number];
}

export function createRandom(seed: number | readonly [number, number, number, number]): Random {
  let [a, b, c, d] = typeof seed === "number" ? seedState(seed) : seed;
  const next32 = (): number => {
    const result = Math.imul(rotl(Math.imul(b, 5), 7), 9) >>> 0;
    const t = b << 9;
    c ^= a;
    d ^= b;
    b ^= c;
    a ^= d;
    c ^= t;
    d = rotl(d, 11);
    return result;
  };
  const next = () => next32() / 2 ** 32;
  const below = (n: number) => Math.floor(next() * n);
  return {
    next,
    below,
    shuffled(items) {
      const copy = [...items];
      for (let i = copy.length - 1; i > 0; i--) {
        const j = below(i + 1);
        [copy[i], copy[j]] = [copy[j]!, copy[i]!];
      }
      return copy;
    },
    state: () => [a, b, c, d],
  };
}

/**
 * One 32-bit seed from several numbers and strings, well mixed: `seedOf(run.seed, "rollout", step, group, member, turn)`.
 * Work that is seeded this way gives the same result in whatever order it runs.
 */
export function seedOf(...parts: readonly (number | string)[]): number {
  let hash = 0x9e3779b9;
  for (const part of parts) {
    const text = typeof part === "number" ? `#${part}` : part;
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
    hash = mix(hash ^ 0x2c);
  }
  return hash >>> 0;
}

function seedState(seed: number): [number, number, number, number] {
  let x = seed >>> 0;
  const word = () => {
    x = (x + 0x9e3779b9) >>> 0;
    return mix(x);
  };
  return [word(), word(), word(), word() | 1];
}

function mix(value: number): number {
  let x = value;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return x ^ (x >>> 16);
}

function rotl(x: number, k: number): number {
  return (x << k) | (x >>> (32 - k));
}
