import { kindServer, type SpanAttributes, type SpanTracer, statusError, type TracedSpan } from "../../tracer.ts";
import type { Served } from "./observer.ts";
import { contextBelow, parseTraceparent, type RemoteSpan } from "./traceparent.ts";

export interface RequestTraceOptions {
  tracer: SpanTracer;
  /**
   * The context that spans are started in. Default: below the caller's `traceparent`, where there is one. Where something else
   * makes a span of each HTTP request already: `() => context.active()`.
   */
  parentContext?: ((caller: RemoteSpan | undefined) => unknown) | undefined;
}

export interface TracedRequest {
  /** As OpenTelemetry's GenAI conventions name it. */
  operation: "chat" | "text_completion" | "embeddings";
  /** The name of a model that is served, not whatever a client wrote. */
  model: string;
  /** The header, as it came. */
  traceparent?: string | undefined;
}

export interface RequestSpan {
  end(one: Served): void;
}

/**
 * A span a request by OpenTelemetry's conventions for generative models: who was asked, how many tokens, why it ended; nothing of what was said.
 * A tracer that fails costs the span, not the request.
 */
export function traceRequests({ tracer, parentContext = below }: RequestTraceOptions): {
  start(request: TracedRequest): RequestSpan;
} {
  return {
    start({ operation, model, traceparent }) {
      const attributes: SpanAttributes = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "stateset",
        "gen_ai.request.model": model,
      };
      let span: TracedSpan | undefined;
      quietly(() => {
        const context = parentContext(parseTraceparent(traceparent));
        span = tracer.startSpan(`${operation} ${model}`, { kind: kindServer, attributes }, context);
      });
      return {
        end(one) {
          quietly(() => {
            span?.setAttributes(attributesOf(one));
            // What a client asked wrongly, or left, is no error of the server; a reply that it breaks off after its 200 is.
            if (one.failed) span?.setStatus({ code: statusError });
            span?.end();
          });
        },
      };
    },
  };
}

function attributesOf(one: Served): SpanAttributes {
  const attributes: SpanAttributes = {
    "http.response.status_code": one.status,
    "gen_ai.response.id": one.requestId,
    "gen_ai.usage.input_tokens": one.promptTokens,
    "gen_ai.usage.output_tokens": one.sampledTokens,
    "gen_ai.usage.cache_read.input_tokens": one.cachedTokens,
  };
  if (one.finishReasons) attributes["gen_ai.response.finish_reasons"] = [...one.finishReasons];
  if (one.version !== undefined) attributes["stateset.version"] = one.version;
  if (one.errorCode !== undefined) attributes["error.type"] = one.errorCode;
  else if (one.status >= 400) attributes["error.type"] = String(one.status);
  return attributes;
}

function below(caller: RemoteSpan | undefined): unknown {
  return caller && contextBelow(caller);
}

function quietly(work: () => void): void {
  try {
    work();
  } catch {
    // Whoever traces is told by its own tools.
  }
}
