import { ROOT_CONTEXT, type Span, type Tracer, trace } from "@opentelemetry/api";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { beforeEach, describe, expect, it } from "vitest";
import { served } from "../../test-support/served.ts";
import { traceRequests } from "./spans.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";
const traceparent = `00-${traceId}-${spanId}-01`;
const chat = { operation: "chat", model: "shop" } as const;

let exporter: InMemorySpanExporter;
let tracer: Tracer;
beforeEach(() => {
  exporter = new InMemorySpanExporter();
  tracer = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).getTracer("test");
});

describe("traceRequests", () => {
  it("makes a span of a request, below the caller's", () => {
    traceRequests({ tracer })
      .start({ ...chat, traceparent })
      .end(served({ version: "abc:3", finishReasons: ["stop", "length"] }));
    const [span] = exporter.getFinishedSpans();
    expect(span!.name).toBe("chat shop");
    expect(span!.kind).toBe(1);
    expect(span!.parentSpanContext).toMatchObject({ traceId, spanId });
    expect(span!.spanContext().traceId).toBe(traceId);
    expect(span!.status.code).toBe(0);
    expect(span!.attributes).toEqual({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "stateset",
      "gen_ai.request.model": "shop",
      "gen_ai.response.id": "req-1",
      "gen_ai.response.finish_reasons": ["stop", "length"],
      "gen_ai.usage.input_tokens": 10,
      "gen_ai.usage.output_tokens": 3,
      "gen_ai.usage.cache_read.input_tokens": 4,
      "http.response.status_code": 200,
      "stateset.version": "abc:3",
    });
  });

  it("keeps to the caller's wish not to be traced, and begins a trace where the header is none", () => {
    const traces = traceRequests({ tracer });
    traces.start({ ...chat, traceparent: traceparent.replace(/01$/, "00") }).end(served());
    expect(exporter.getFinishedSpans()).toEqual([]);
    traces.start({ ...chat, traceparent: `${traceparent}-forged` }).end(served());
    expect(exporter.getFinishedSpans()[0]!.parentSpanContext).toBeUndefined();
  });

  it.each([
    ["a failure of the server", served({ status: 500, failed: true }), 2, "500"],
    ["a reply that broke off", served({ failed: true, errorCode: "engine_failed" }), 2, "engine_failed"],
    ["a reply whose time was up", served({ errorCode: "deadline_exceeded" }), 0, "deadline_exceeded"],
    ["a client's mistake", served({ status: 404, errorCode: "model_not_found" }), 0, "model_not_found"],
    ["a client that left", served({ aborted: true }), 0, undefined],
  ])("says the status of %s", (_, one, code, type) => {
    traceRequests({ tracer }).start(chat).end(one);
    const [span] = exporter.getFinishedSpans();
    expect(span!.status.code).toBe(code);
    expect(span!.attributes["error.type"]).toBe(type);
  });

  it("puts the span where it is told to", () => {
    const http: Span = tracer.startSpan("GET");
    const spans = traceRequests({ tracer, parentContext: () => trace.setSpan(ROOT_CONTEXT, http) });
    spans.start({ ...chat, traceparent }).end(served());
    expect(exporter.getFinishedSpans()[0]!.parentSpanContext?.spanId).toBe(http.spanContext().spanId);
  });

  it("does not fail when the tracer does", () => {
    const broken = () => {
      throw new Error("no collector");
    };
    traceRequests({ tracer: { startSpan: broken } })
      .start(chat)
      .end(served());
    const span = { setAttributes: broken, addEvent: broken, setStatus: broken, end: broken };
    traceRequests({ tracer: { startSpan: () => span } })
      .start(chat)
      .end(served({ status: 500, failed: true }));
  });
});
