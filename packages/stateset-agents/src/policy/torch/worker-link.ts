import type { StatesetError } from "../../error.ts";
import type { Connection } from "./connection.ts";

/** What the worker says of itself. */
export interface WorkerFacts {
  version: string;
  /** Ranks. */
  world: number;
  device: "cpu" | "cuda";
  gpus: readonly { name: string; totalBytes: number }[];
  /** One per rank, on its own machine. */
  pids: readonly number[];
  bitsandbytes: boolean;
  host: string;
}

/** A worker that answers, wherever it runs. */
export interface WorkerLink {
  readonly connection: Connection;
  readonly hello: WorkerFacts;
  /** Ends the worker if it was started for this policy, or leaves it to the next one. */
  close(error: StatesetError): Promise<void>;
}
