import type { Trajectory } from "../conversation/trajectory.ts";
import type { RunCallbacks } from "../run/callbacks.ts";
import { type SpanAttributes, type SpanTracer, statusError, statusOk, type TracedSpan } from "../tracer.ts";

export interface TraceOptions {
  tracer: SpanTracer;
  /**
   * Makes a span the parent of those started with the returned context. With `@opentelemetry/api`:
   * `(span) => trace.setSpan(context.active(), span)`. Left out: spans have no parent.
   */
  parentContext?: (span: TracedSpan) => unknown;
  /** Conversation spans per step at most. */
  perStep?: number;
}

/** Traces a run: a span for the run, one a step, below it one a conversation with its reward, length and failures. */
export function traceWith({ tracer, parentContext, perStep = 64 }: TraceOptions): RunCallbacks {
  const below = (span: TracedSpan | undefined) => (span && parentContext ? parentContext(span) : undefined);
  let run: TracedSpan | undefined;
  let step: TracedSpan | undefined;
  let stepStartMs = 0;
  return {
    onStart({ id, learner, steps, settings: { seed } }) {
      // Of a run that goes on from a checkpoint.
      for (const span of [step, run]) span?.end();
      step = undefined;
      const attributes = { "run.id": id, "run.steps": steps, "run.learner": learner };
      run = tracer.startSpan("stateset.run", {
        attributes: { ...attributes, ...(typeof seed === "number" && { "run.seed": seed }) },
      });
    },
    onStepStart({ step: number, learningRate }) {
      stepStartMs = Date.now();
      step = tracer.startSpan("stateset.step", { attributes: { step: number, learningRate } }, below(run));
    },
    onRollouts({ groups, report }) {
      const endMs = Date.now();
      for (const trajectory of groups.flatMap((group) => group.trajectories).slice(0, perStep)) {
        const span = tracer.startSpan(
          "stateset.rollout",
          { attributes: describe(trajectory), startTime: stepStartMs },
          below(step),
        );
        span.setStatus({ code: statusOk });
        span.end(endMs);
      }
      for (const { message, kind, during } of report.failures) {
        step?.addEvent("rollout.failed", { message, kind, during });
      }
    },
    onStepEnd({ metrics }) {
      const { step: _, ...numbers } = metrics;
      step?.setAttributes(numbers);
      step?.end();
      step = undefined;
    },
    onEnd({ status, steps, reason }) {
      step?.end();
      run?.setAttributes({ "run.status": status, "run.stepsDone": steps });
      run?.setStatus({
        code: status === "failed" ? statusError : statusOk,
        ...(reason === undefined ? {} : { message: reason }),
      });
      run?.end();
    },
  };
}

function describe(trajectory: Trajectory): SpanAttributes {
  const attributes: SpanAttributes = {
    "rollout.id": trajectory.id,
    "rollout.scenario": trajectory.scenarioId,
    "rollout.turns": trajectory.turns.length,
    "rollout.tokens": trajectory.chains.reduce((sum, chain) => sum + chain.learn.reduce((n, bit) => n + bit, 0), 0),
    "rollout.reward": trajectory.reward.score,
    "rollout.ended": trajectory.ended,
  };
  for (const [name, value] of Object.entries(trajectory.reward.breakdown)) attributes[`rollout.reward.${name}`] = value;
  return attributes;
}
