/** What readiness is read from. */
export interface HealthSources {
  models(): Iterable<ModelHealth>;
  /** The server was told to end. */
  draining(): boolean;
}

export interface ModelHealth {
  name: string;
  loaded: boolean;
  /** False once the engine has failed and could not be opened again. */
  alive: boolean;
  waiting: number;
  maxWaiting: number;
}

/** Why requests should go elsewhere for now. */
export interface Trouble {
  kind: "draining" | "no-models" | "loading" | "engine-failed" | "queue-full";
  message: string;
}

export interface Readiness {
  ready: boolean;
  reasons: string[];
}

/** The process answers, which is all that this says. */
export function healthz(): { status: "ok" } {
  return { status: "ok" };
}

export function readyz(sources: HealthSources): Readiness {
  const reasons = troublesOf(sources).map(({ message }) => message);
  return { ready: reasons.length === 0, reasons };
}

/** What a caller is told: without the scope "read" only whether it is ready. */
export function readyReply(
  { ready, reasons }: Readiness,
  scopes?: ReadonlySet<string>,
): { status: 200 | 503; body: { status: "ready" | "not ready"; reasons?: string[] } } {
  const status = ready ? "ready" : "not ready";
  return { status: ready ? 200 : 503, body: scopes?.has("read") ? { status, reasons } : { status } };
}

export function troublesOf(sources: HealthSources): Trouble[] {
  const troubles: Trouble[] = [];
  if (sources.draining()) troubles.push({ kind: "draining", message: "The server is ending." });
  const models = [...sources.models()];
  if (models.length === 0) troubles.push({ kind: "no-models", message: "No model is loaded." });
  for (const { name, loaded, alive, waiting, maxWaiting } of models) {
    if (!loaded) troubles.push({ kind: "loading", message: `The model "${name}" is not loaded yet.` });
    else if (!alive) troubles.push({ kind: "engine-failed", message: `The engine of the model "${name}" failed.` });
    // One that takes nobody is full from its first on.
    else if (waiting >= Math.max(1, maxWaiting)) {
      troubles.push({ kind: "queue-full", message: `The queue of the model "${name}" is full: ${waiting} wait.` });
    }
  }
  return troubles;
}
