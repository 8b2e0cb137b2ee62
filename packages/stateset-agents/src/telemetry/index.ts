export type { RunOutcome, TrackedRun, Tracker } from "../run/tracker.ts";
export type { SpanTracer } from "../tracer.ts";
export { type Alert, type AlertOptions, alertSender, alertWith } from "./alerts.ts";
export { type ConsoleTrackerOptions, consoleTracker } from "./console-tracker.ts";
export { fileTracker } from "./file-tracker.ts";
export { type TraceOptions, traceWith } from "./opentelemetry.ts";
export { tensorBoardTracker } from "./tensorboard.ts";
export { wandbTracker } from "./wandb.ts";
