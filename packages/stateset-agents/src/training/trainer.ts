import { linkSignals } from "../abort.ts";
import type { Agent } from "../agent/agent.ts";
import type { TrainingCallbacks } from "./callbacks.ts";
import { type TrainResult, train } from "./train.ts";
import type { TrainOptions } from "./train-options.ts";

/**
 * train() as an object, for code that builds a run in one place and starts it in another. Despite the name it runs any algorithm.
 *
 * @example
 * const trainer = new MultiTurnGRPOTrainer({ agent, environment, reward, steps: 100 });
 * const { agent: trained } = await trainer.train({ callbacks: { onStepEnd: ({ step, metrics }) => console.log(step, metrics.reward) } });
 */
export class MultiTurnGRPOTrainer<A extends Agent = Agent> {
  readonly options: TrainOptions<A>;
  readonly #stop = new AbortController();
  #running = false;

  constructor(options: TrainOptions<A>) {
    this.options = options;
  }

  /** True from train() until it has returned. */
  get running(): boolean {
    return this.#running;
  }

  /** `callbacks` come beside those of the options. */
  async train(extra: { callbacks?: TrainingCallbacks | readonly TrainingCallbacks[] } = {}): Promise<TrainResult<A>> {
    const callbacks = [this.options.callbacks ?? [], extra.callbacks ?? []].flat();
    const { signal, unlink } = linkSignals(this.options.signal, this.#stop.signal);
    this.#running = true;
    try {
      return await train<A>({ ...this.options, callbacks, signal });
    } finally {
      this.#running = false;
      unlink();
    }
  }

  /** Stops within a decoding step, saves what the last finished step left, and lets train() return with status "interrupted". */
  stop(): void {
    this.#stop.abort();
  }
}
