import { z } from "zod";

/** Of the engine "torch". */
export interface TorchOptions {
  /** GPUs of this machine, a process for each. Default 1. On the CPU: processes. */
  gpus?: number | undefined;
  /** Default "cuda": to compute on the CPU is said, not fallen back to. */
  device?: "cuda" | "cpu" | undefined;
  /** A worker that runs already: `torch://host:port`. Its token is in the environment variable STATESET_WORKER_TOKEN. */
  url?: string | undefined;
  /** For a worker on another machine. `ca`: a file with certificates to trust beside those Node knows. */
  tls?: { ca: string } | undefined;
  /** The Python that runs the worker. Default: STATESET_PYTHON, then that of `stateset-agents setup-gpu`, then python3. */
  python?: string | undefined;
  /** What is computed in. Default "auto": bf16 over f32 master weights on a GPU, f32 on the CPU. */
  dtype?: "auto" | "f32" | "bf16" | undefined;
  /** Keep the frozen base of an adapter in 4 bits; needs CUDA and bitsandbytes. */
  quantise?: "nf4" | undefined;
  /** Passes that may wait for their backward at a time. Default 2. */
  passesInFlight?: number | undefined;
  /** How long the worker may get nowhere before it counts as lost. Default 600. */
  deadlineSeconds?: number | undefined;
  /** Where the worker's log goes, and its stacks if it stalls. Default: only the last lines are kept, for errors. */
  logDir?: string | undefined;
}

export const torchSchema = z.strictObject({
  gpus: z.int().min(1).max(1024).optional(),
  device: z.enum(["cuda", "cpu"]).optional(),
  url: z.string().min(1).optional(),
  tls: z.strictObject({ ca: z.string().min(1) }).optional(),
  python: z.string().min(1).optional(),
  dtype: z.enum(["auto", "f32", "bf16"]).optional(),
  quantise: z.enum(["nf4"]).optional(),
  passesInFlight: z.int().min(1).max(64).optional(),
  deadlineSeconds: z.number().positive().max(2_000_000).optional(),
  logDir: z.string().min(1).optional(),
});
