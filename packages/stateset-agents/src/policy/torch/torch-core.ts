import { StatesetError } from "../../error.ts";
import type { LoraOptions, Version } from "../policy.ts";
import type { LoadedTokenizer, ModelFiles } from "../tokenizer/index.ts";
import { loadedVersion, VersionNames } from "../version.ts";
import type { CallArrays } from "./connection.ts";
import type { Reply } from "./reply.ts";
import type { WorkerInfo } from "./worker-info.ts";
import type { WorkerLink } from "./worker-link.ts";

/** A worker with the model open in it. */
export interface OpenWorker {
  link: WorkerLink;
  info: WorkerInfo;
}

export interface TorchParts {
  name: string;
  /** Of the base model: where its files are, and what an adapter calls it. */
  base: { dir: string; name: string };
  tokenizerFiles: ModelFiles;
  tokenizer: LoadedTokenizer;
  lora: LoraOptions | undefined;
  /** Where the adapter was loaded from; undefined for a new one. */
  adapterDir: string | undefined;
  passesInFlight: number;
  maxWaiting: number | undefined;
  /** Starts or finds a worker, and opens the model in it. `again`: after one was lost, which may count as its client still. */
  launch(again: boolean): Promise<OpenWorker>;
}

/** What the parts of a torch policy share: the worker, how calls reach it, and what has become of it. */
export class TorchCore {
  readonly parts: TorchParts;
  valueHead: boolean;
  closed = false;
  #worker: OpenWorker;
  #names: VersionNames;
  #reviving: Promise<void> | undefined;

  constructor(parts: TorchParts, worker: OpenWorker) {
    this.parts = parts;
    this.#worker = worker;
    this.valueHead = worker.info.valueHead;
    this.#names = new VersionNames(worker.info.count, loadedVersion(worker.info.digest));
  }

  get info(): WorkerInfo {
    return this.#worker.info;
  }

  /** What passes, vectors and references live in: they are gone with it. */
  get link(): WorkerLink {
    return this.#worker.link;
  }

  /** Names of the weights by the worker's count of changes. */
  get names(): VersionNames {
    return this.#names;
  }

  /** The worker's count of changes, of those that are known here. */
  get countNow(): number {
    return this.#names.count;
  }

  /** Of the weights it was opened with. */
  get opened(): Version {
    return loadedVersion(this.info.digest);
  }

  get limits(): { vocabSize: number; contextLength: number } {
    const { vocabSize, contextLength } = this.info;
    return { vocabSize, contextLength };
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.closed) throw new StatesetError("POLICY_CLOSED", `${this.parts.name} was used after close().`);
    return work();
  }

  call(
    op: string,
    options?: Readonly<Record<string, unknown>>,
    arrays?: CallArrays,
    onEvent?: (event: Reply) => void,
  ): Promise<Reply> & { id: number } {
    return this.link.connection.call(op, options, arrays, onEvent);
  }

  /** A worker like the one that was lost, with the model as it was opened. */
  revive(): Promise<void> {
    this.#reviving ??= this.run(async () => {
      if (!this.link.connection.lost) return;
      await this.link.close(new StatesetError("WORKER_LOST", "The PyTorch worker was given up for another one."));
      const worker = await this.parts.launch(true);
      const closed = new StatesetError("POLICY_CLOSED", `${this.parts.name} was used after close().`);
      if (this.closed) {
        await worker.link.close(closed);
        throw closed;
      }
      if (worker.info.digest !== this.info.digest) {
        await worker.link.close(closed);
        throw new StatesetError(
          "MODEL_INVALID",
          `The files of ${this.parts.name} are no longer those it was opened with.`,
          {
            hint: "Put them back, or open the policy anew.",
          },
        );
      }
      this.#worker = worker;
      this.#names = new VersionNames(worker.info.count, loadedVersion(worker.info.digest));
      // One that was added is added again: what is restored next may have it, and callers were told that it is there.
      if (this.valueHead && !worker.info.valueHead) await this.call("addValueHead");
    }).finally(() => {
      this.#reviving = undefined;
    });
    return this.#reviving;
  }

  async close(): Promise<void> {
    if (this.closed) return;
    this.closed = true;
    await this.link.close(new StatesetError("POLICY_CLOSED", `${this.parts.name} was used after close().`));
  }
}

/** What a worker that is gone took with it. */
export function gone(what: string): StatesetError {
  return new StatesetError("WORKER_LOST", `${what} was lost with the worker that held it.`, {
    hint: "Go on from a checkpoint: what it was computed from is gone, too.",
  });
}
