import { StatesetError } from "../../error.ts";

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

export function readCheck(result: TaskCheck | FinalCheck, taskId: string): ReadCheck {
  if (typeof result === "boolean") return { success: result, progress: result ? 1 : 0 };
  const { success, progress, ...words }: ReadCheck =
    typeof result === "number"
      ? { success: result >= 1, progress: result }
      : { progress: result.success ? 1 : 0, ...result };
  if (!(progress >= 0 && progress <= 1)) {
    throw new StatesetError("ENVIRONMENT_FAILED", `The check of task "${taskId}" gave a progress of ${progress}.`, {
      hint: "Give a number from 0 to 1.",
    });
  }
  return { success, progress: success ? 1 : progress, ...words };
}
