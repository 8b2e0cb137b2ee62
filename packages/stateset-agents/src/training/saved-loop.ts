/** A run's state to and from its checkpoints. */
import { join } from "node:path";
import type { EarlyStoppingState } from "../evaluation/early-stopping.ts";
import { assertSameModel, findCheckpoint } from "../run/checkpoint/store.ts";
import type { EvaluationResult } from "../run/events.ts";
import type { Loop, LoopState } from "./loop.ts";

/** What a checkpoint holds beside the policy. */
export interface SavedState {
  loop: LoopState;
  metricsBytes: number;
  algorithm: Record<string, number>;
  callbacks: Record<string, unknown>;
  earlyStopping: EarlyStoppingState | null;
  before: EvaluationResult | null;
}

/** Writes a checkpoint of the run as it is; does nothing when the run keeps no files. */
export async function saveLoop(loop: Loop, best: boolean): Promise<void> {
  const { files, store, state, emitter, learner } = loop;
  if (!files || !store || learner.policy.model.stub) return;
  const saved: SavedState = {
    loop: state,
    metricsBytes: files.syncMetrics(),
    algorithm: learner.algorithm.state?.() ?? {},
    callbacks: emitter.states(),
    earlyStopping: loop.earlyStopping?.state() ?? null,
    before: loop.before ?? null,
  };
  const { policy, reference } = learner;
  const parts = { policy, ...(reference && { reference: { snapshot: (target: string) => reference.save(target) } }) };
  const dir = await store.save(policy.model, parts, { step: state.step, state: saved, best });
  loop.savedStep = state.step;
  await emitter.emit("onCheckpoint", { step: state.step, dir, best });
}

/** Puts everything back to where the newest intact checkpoint left it; without one, to the beginning. */
export async function resumeLoop(loop: Loop, resumeFrom: string): Promise<void> {
  const { files, store, state, emitter, learner } = loop;
  files!.settle();
  const damaged: string[] = [];
  const found = findCheckpoint<SavedState>(resumeFrom, (message) => damaged.push(message));
  for (const message of damaged) await emitter.warn({ step: 0, kind: "checkpoint-damaged", message });
  if (found) {
    assertSameModel(found.manifest, learner.policy.model, found.dir);
    await learner.policy.restore(join(found.dir, "policy"));
    if (learner.reference) {
      await learner.reference.close();
      learner.reference = await learner.policy.reference({ from: join(found.dir, "reference") });
    }
    Object.assign(state, found.state.loop);
    learner.algorithm.restore?.(found.state.algorithm);
    emitter.restore(found.state.callbacks);
    if (found.state.earlyStopping) loop.earlyStopping?.restore(found.state.earlyStopping);
    loop.before = found.state.before ?? undefined;
    loop.savedStep = state.step;
  } else {
    const message = `${files!.dir} holds no checkpoint yet: the run starts again from its first step.`;
    await emitter.warn({ step: 0, kind: "restarted", message });
  }
  files!.rewind(found?.state.metricsBytes ?? 0, state.step);
  store!.repair(state.step, state.best?.step);
  loop.records.push(...files!.readMetrics());
}
