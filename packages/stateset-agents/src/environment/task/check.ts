import { z } from "zod";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";

/** How far a reply got: yes or no, a number from 0 to 1, or either with something to tell the agent. */
export type TaskCheck = boolean | number | { success: boolean; progress?: number; feedback?: string };

/** How far a task with a state got in the end: yes or no, a number from 0 to 1, or either with the reason, for whoever reads it later. */
export type FinalCheck = boolean | number | { success: boolean; progress?: number; why?: string };

export interface ReadCheck {
  success: boolean;
  progress: number;
  feedback?: string;
  why?: string;
}

const shape = z.strictObject({
  success: z.boolean(),
  progress: z.number().optional(),
  feedback: z.string().min(1).optional(),
  why: z.string().optional(),
});

/** A check is somebody's code: what it forgot to return must not count as a task that was not done. */
export function readCheck(result: TaskCheck | FinalCheck, taskId: string): ReadCheck {
  const where = `what the check of task "${taskId}" returned`;
  if (typeof result === "boolean") return { success: result, progress: result ? 1 : 0 };
  if (typeof result !== "number" && (typeof result !== "object" || result === null)) {
    throw new StatesetError("CHECK_FAILED", `The check of task "${taskId}" returned ${printed(result)}.`, {
      hint: "Return true or false, a progress from 0 to 1, or { success, progress }.",
    });
  }
  const { success, progress, ...words } =
    typeof result === "number"
      ? { success: result >= 1, progress: result }
      : parseOptions(shape, result, where, "CHECK_FAILED");
  const reached = progress ?? (success ? 1 : 0);
  if (!(reached >= 0 && reached <= 1)) {
    throw new StatesetError("CHECK_FAILED", `The check of task "${taskId}" gave a progress of ${reached}.`, {
      hint: "Give a number from 0 to 1.",
    });
  }
  return { success, progress: success ? 1 : reached, ...(words as Pick<ReadCheck, "feedback" | "why">) };
}

function printed(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
