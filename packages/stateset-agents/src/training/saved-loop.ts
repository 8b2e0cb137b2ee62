/** A run's state to and from its checkpoints. */
import type { EarlyStoppingState } from "../evaluation/early-stopping.ts";
import { type RunPart, restoreParts } from "../run/checkpoint/store.ts";
import type { RewardEvaluation } from "../run/event.ts";
import type { OpenedRun } from "../run/open-run.ts";
import type { Loop, LoopState } from "./loop.ts";

/** What a checkpoint holds of the loop, beside the policy. */
export interface SavedState {
  loop: LoopState;
  algorithm: Record<string, number>;
  earlyStopping: EarlyStoppingState | null;
  before: RewardEvaluation | null;
}

/** Writes a checkpoint of the run as it is. A stub has nothing to keep. */
export async function saveLoop(loop: Loop, options: { best: boolean; planned: boolean }): Promise<void> {
  const { run, state, learner } = loop;
  const { policy, algorithm } = learner;
  if (policy.model.stub) return;
  const saved: SavedState = {
    loop: state,
    algorithm: algorithm.state?.() ?? {},
    earlyStopping: loop.earlyStopping?.state() ?? null,
    before: loop.before ?? null,
  };
  await run.save(policy.model, partsOf(loop), saved, options);
}

/** What a checkpoint keeps in folders of their own. */
function partsOf({ learner, recall, scenarios: { sampler } }: Loop): Record<string, RunPart> {
  const { policy } = learner;
  const kept = { policy, ...(recall && { recall }), ...(sampler && { sampler }) };
  if (!learner.reference) return kept;
  return {
    ...kept,
    // A run that had no use for one so far begins with the weights the agent was given with.
    reference: {
      snapshot: (dir) => learner.reference!.save(dir),
      async restore(from) {
        await learner.reference!.close();
        learner.reference = await policy.reference({ from });
      },
    },
  };
}

/** Puts everything back to where a checkpoint left it. */
export async function restoreLoop(loop: Loop, { checkpoint, takenUp }: OpenedRun<SavedState>): Promise<void> {
  if (!checkpoint) return;
  const { state, learner } = loop;
  const saved = checkpoint.state.learner;
  await restoreParts(checkpoint.dir, partsOf(loop));
  Object.assign(state, saved.loop);
  learner.algorithm.restore?.(saved.algorithm);
  if (saved.earlyStopping && !takenUp) loop.earlyStopping?.restore(saved.earlyStopping);
  loop.before = saved.before ?? undefined;
}
