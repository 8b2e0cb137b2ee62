/** What the plans of all commands have in common. */
import type { MemoryPlan } from "../../policy/policy.ts";
import { bytes } from "../../telemetry/format.ts";
import { CliExit } from "../failure.ts";
import { type CliIo, colorsOf, print } from "../io.ts";

/** A line each, but for those that are undefined. */
export function printPlanTable(
  rows: Readonly<Record<string, string | undefined>>,
  io: CliIo,
  aside = "nothing is trained",
): void {
  const { bold, dim } = colorsOf(io);
  const lines = Object.entries(rows).flatMap(([name, text]) =>
    text === undefined ? [] : [`${dim(name.padEnd(12))}${text}`],
  );
  print(io, bold("Plan") + dim(` (${aside})`), ...lines);
}

/** A script that asks for the plan must not go on with a run that would fail. */
export function refuseUnfit(memory: MemoryPlan | undefined): void {
  if (memory && memory.total > memory.available)
    throw new CliExit(6, "The plan does not fit in memory.", "OUT_OF_MEMORY");
}

export function memoryText(plan: MemoryPlan, io: CliIo): string {
  const colors = colorsOf(io);
  const parts = [`weights ${bytes(plan.weights)}`, `optimiser ${bytes(plan.optimiser)}`];
  if (plan.reference > 0) parts.push(`reference ${bytes(plan.reference)}`);
  if (plan.scorer > 0) parts.push(`the reward's reference ${bytes(plan.scorer)}`);
  if (plan.undo > 0) parts.push(`taking steps back ${bytes(plan.undo)}`);
  parts.push(`activations up to ${bytes(plan.activations)}`, `conversations up to ${bytes(plan.cache)}`);
  if (plan.keptActivations > 0) parts.push(`activations kept from sampling up to ${bytes(plan.keptActivations)}`);
  parts.push(`saving up to ${bytes(plan.saving)}`);
  const fits = plan.total <= plan.available;
  const verdict = fits
    ? colors.green(`fits in ${bytes(plan.available)}`)
    : colors.red(`does not fit in ${bytes(plan.available)}`);
  const advice = fits ? "" : " Lower tokenBudget, set recompute, or use LoRA.";
  return `about ${bytes(plan.total)} (${parts.join(", ")}), ${verdict}${advice}`;
}
