/** Who calls, once a key was found good: what it may do, and how much of it. */
export const scopes = ["infer", "read", "admin", "metrics"] as const;
export type Scope = (typeof scopes)[number];

export interface Caller {
  keyId: string;
  /** What the caller makes and sees belongs to it. */
  project: string;
  scopes: ReadonlySet<Scope>;
  /** The models it may name; left out: all. */
  models?: readonly string[] | undefined;
  limits: CallerLimits;
}

export interface CallerLimits {
  requestsPerMinute?: number | undefined;
  tokensPerMinute?: number | undefined;
  concurrency?: number | undefined;
}

/** What a key turned out to be. Only whoever has the whole key learns that it is revoked or expired. */
export type Found = { kind: "ok"; caller: Caller } | { kind: "unknown" | "revoked" | "expired" };

/** Where keys are looked up. */
export interface Keys {
  find(token: string): Found;
  close(): void;
}
