import { ROOT_CONTEXT, type Span, trace } from "@opentelemetry/api";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { describe, expect, it } from "vitest";
import { emptyReport } from "../rollout/report.ts";
import type { RunStart, StepEnd } from "../run/callbacks.ts";
import { fakeGroup } from "../test-support/fake-group.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import type { SpanTracer, TracedSpan } from "../tracer.ts";
import { train } from "../training/train.ts";
import { traceWith } from "./opentelemetry.ts";

interface Recorded {
  name: string;
  parent: string | undefined;
  attributes: Record<string, unknown>;
  events: string[];
  status?: number;
  ended: boolean;
}

function recorder() {
  const spans: Recorded[] = [];
  const tracer: SpanTracer = {
    startSpan(name, options, context) {
      const span: Recorded & TracedSpan = {
        name,
        parent: context as string | undefined,
        attributes: { ...options?.attributes },
        events: [],
        ended: false,
        setAttributes: (attributes) => Object.assign(span.attributes, attributes),
        addEvent: (event) => span.events.push(event),
        setStatus: ({ code }) => {
          span.status = code;
        },
        end: () => {
          span.ended = true;
        },
      };
      spans.push(span);
      return span;
    },
  };
  return { spans, tracer };
}

describe("traceWith", () => {
  it("traces run, step and conversations, each below its parent, all ended", async () => {
    const { spans, tracer } = recorder();
    const callbacks = traceWith({ tracer, parentContext: (span) => (span as unknown as Recorded).name });
    await callbacks.onStart!({
      id: "r1",
      learner: "grpo",
      steps: 1,
      settings: { seed: 3 },
    } as unknown as RunStart);
    await callbacks.onStepStart!({ step: 1, totalSteps: 1, learningRate: 1e-4 });
    const report = {
      ...emptyReport(),
      failures: [
        { kind: "threw" as const, during: "reward" as const, trajectoryId: "x", scenarioId: "a", message: "boom" },
      ],
    };
    await callbacks.onRollouts!({
      step: 1,
      groups: [fakeGroup("a", [{ reward: 1, parts: { polite: 1 } }, { reward: 0 }])],
      report,
    });
    await callbacks.onStepEnd!({ metrics: { step: 1, loss: 0.5 } } as unknown as StepEnd);
    await callbacks.onEnd!({ status: "finished", steps: 1 });

    expect(spans.map(({ name, parent }) => [name, parent])).toEqual([
      ["stateset.run", undefined],
      ["stateset.step", "stateset.run"],
      ["stateset.rollout", "stateset.step"],
      ["stateset.rollout", "stateset.step"],
    ]);
    expect(spans.every(({ ended }) => ended)).toBe(true);
    expect(spans[1]).toMatchObject({ attributes: { step: 1, loss: 0.5 }, events: ["rollout.failed"] });
    expect(spans[2]!.attributes).toMatchObject({
      "rollout.scenario": "a",
      "rollout.reward": 1,
      "rollout.reward.polite": 1,
      "rollout.tokens": 20,
    });
  });

  it("marks a failed run", async () => {
    const { spans, tracer } = recorder();
    const callbacks = traceWith({ tracer });
    await callbacks.onStart!({
      id: "r1",
      learner: "grpo",
      steps: 1,
      settings: { seed: 3 },
    } as unknown as RunStart);
    await callbacks.onEnd!({ status: "failed", steps: 0, reason: "no" });
    expect(spans[0]).toMatchObject({ status: 2, ended: true });
  });
});

describe("traceWith on the OpenTelemetry SDK", () => {
  it("gives a tree of spans for a real run", async () => {
    const exporter = new InMemorySpanExporter();
    const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
    const callbacks = traceWith({
      tracer: provider.getTracer("test"),
      parentContext: (span) => trace.setSpan(ROOT_CONTEXT, span as Span),
      perStep: 3,
    });
    await train({
      agent: tableAgent().agent,
      environment: tableEnvironment(),
      reward: new FunctionReward(politeShare),
      name: "traced",
      dir: false,
      steps: 2,
      groupsPerStep: 2,
      groupSize: 4,
      learningRate: 0.1,
      callbacks,
    });
    const spans = exporter.getFinishedSpans();
    const count = (name: string) => spans.filter((span) => span.name === name).length;
    expect([count("stateset.run"), count("stateset.step"), count("stateset.rollout")]).toEqual([1, 2, 6]);
    const idOf = (name: string) => spans.filter((span) => span.name === name).map((span) => span.spanContext().spanId);
    const [run] = idOf("stateset.run");
    for (const span of spans) {
      if (span.name === "stateset.step") expect(span.parentSpanContext?.spanId).toBe(run);
      if (span.name === "stateset.rollout") expect(idOf("stateset.step")).toContain(span.parentSpanContext?.spanId);
    }
    expect(spans.find((span) => span.name === "stateset.run")?.attributes).toMatchObject({
      "run.id": "traced",
      "run.status": "finished",
      "run.stepsDone": 2,
    });
  });
});
