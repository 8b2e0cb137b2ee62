/**
 * The runs. Half are healthy: what they are taught is what is wanted, and they learn it. Half are made ill, each in its own way; `expected`
 * holds the verdicts that name the illness. Thresholds were tuned on the cases of set "tuning" alone; those of set "proof" are of other
 * kinds and seeds, and were first run when the thresholds stood.
 */
import type { Case } from "./case.ts";
import { proofCases } from "./proof-cases.ts";
import { tuningCases } from "./tuning-cases.ts";

export const cases: Record<string, Case> = { ...tuningCases, ...proofCases };
