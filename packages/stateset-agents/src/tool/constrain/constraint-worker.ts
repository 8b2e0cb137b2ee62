/** The thread of compile-in-worker.ts: makes one constraint after another, and answers each. */
import { parentPort } from "node:worker_threads";
import { messageOf, StatesetError } from "../../error.ts";
import { callFormats } from "../format/choose-format.ts";
import { compileConstraint } from "./compile-constraint.ts";
import type { Asked, Schemas, WorkerReport } from "./compile-in-worker.ts";

const port = parentPort!;
port.on("message", ({ format, schemas, ...rest }: Asked) => {
  try {
    const options = { ...rest, ...(JSON.parse(schemas) as Schemas), format: format && callFormats[format] };
    const made = compileConstraint(options);
    const { starts, ranges, targets, flags } = made;
    port.postMessage(
      { made } satisfies WorkerReport,
      [starts, ranges, targets, flags].map(({ buffer }) => buffer as ArrayBuffer),
    );
  } catch (error) {
    const hint = StatesetError.isInstance(error) ? error.hint : undefined;
    const message = messageOf(error);
    const failed = { message: hint === undefined ? message : message.slice(0, -hint.length - 1), hint };
    port.postMessage({ failed } satisfies WorkerReport);
  }
});
port.postMessage("ready" satisfies WorkerReport);
