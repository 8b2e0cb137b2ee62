/** Holding a reply to what it may be while it is sampled. */

/**
 * What a reply may be, byte by byte: an automaton that begins in state 0. Special tokens are read by what they print; a reply ends, and
 * has special tokens in it, only where the flags say so.
 */
export interface ByteAutomaton {
  /** The ranges of state i are numbers `starts[i]` up to, without it, `starts[i + 1]`. */
  readonly starts: Int32Array;
  /** First and last byte of each range, in order within a state. */
  readonly ranges: Uint8Array;
  /** The state that each range leads to. */
  readonly targets: Int32Array;
  /** By state: 1 free (words, where special tokens may be drawn), 2 the reply may end, 4 a special token may be drawn if its spelling fits. */
  readonly flags: Uint8Array;
}

/** What a constraint did, token by token. */
export interface Constrained {
  /** 1 where the constraint left one choice. */
  forced: Uint8Array;
  /** The probability of all that could not be drawn, in the distribution that `logprobs` are of. */
  removed: Float32Array;
}
