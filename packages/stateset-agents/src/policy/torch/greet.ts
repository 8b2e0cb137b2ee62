import { z } from "zod";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { packageVersion } from "../../package-version.ts";
import type { Connection } from "./connection.ts";
import type { WorkerFacts } from "./worker-link.ts";

const protocol = 1;

const schema = z.object({
  protocol: z.int(),
  version: z.string(),
  world: z.int().min(1),
  device: z.enum(["cpu", "cuda"]),
  gpus: z.array(z.object({ name: z.string(), totalBytes: z.number() })),
  pids: z.array(z.int().min(1)),
  torch: z.string().nullable(),
  transformers: z.string().nullable(),
  peft: z.string().nullable(),
  bitsandbytes: z.boolean(),
  host: z.string(),
  maxFrameBytes: z.int().min(1).optional(),
});

/** The first words on a connection: who is there, and whether both sides go together. */
export async function greet(connection: Connection, where: string, token: string | undefined): Promise<WorkerFacts> {
  const version = packageVersion();
  const { fields } = await connection.call("hello", { protocol, version, ...(token !== undefined && { token }) });
  const value = parseOptions(schema, fields, `the greeting of ${where}`, "WORKER_REFUSED");
  if (value.protocol !== protocol || value.version !== version) {
    throw new StatesetError(
      "WORKER_REFUSED",
      `The worker at ${where} is version ${value.version} (protocol ${value.protocol}); this is ${version} (protocol ${protocol}).`,
      { hint: "Start the worker from the same release of stateset-agents: `stateset-agents setup-gpu` installs it." },
    );
  }
  connection.trust(value.maxFrameBytes);
  const { torch, transformers, peft } = value;
  for (const [module, found] of Object.entries({ torch, transformers, peft })) {
    if (found === null) throw lacks(where, module);
  }
  return value;
}

/** Of a worker whose Python has not all that it needs. */
export function lacks(where: string, module: string): StatesetError {
  return new StatesetError("ENGINE_UNAVAILABLE", `The Python of ${where} has no ${module}.`, {
    hint: "`stateset-agents setup-gpu` installs what the worker needs.",
  });
}
