export type { RolloutReport } from "./report.ts";
export type { RolloutOptions } from "./settings.ts";
