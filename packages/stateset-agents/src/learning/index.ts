export type { UpdateEvent } from "./learn.ts";
export { type LearnFromOptions, type LearnFromResult, learnFrom } from "./learn-from.ts";
export type { LearntNumbers } from "./learnt-tokens.ts";
