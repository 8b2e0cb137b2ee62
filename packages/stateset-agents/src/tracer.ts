/** The part of `@opentelemetry/api` that is used, so that the package is not needed unless you have it. */

export interface SpanTracer {
  startSpan(
    name: string,
    options?: { attributes?: SpanAttributes; startTime?: number; kind?: number },
    context?: unknown,
  ): TracedSpan;
}

export interface TracedSpan {
  setAttributes(attributes: SpanAttributes): unknown;
  addEvent(name: string, attributes?: SpanAttributes): unknown;
  setStatus(status: { code: number; message?: string }): unknown;
  end(endTime?: number): void;
}

export type SpanAttributes = Record<string, string | number | boolean | string[]>;

/** SpanStatusCode. */
export const statusOk = 1;
export const statusError = 2;

/** SpanKind of work that is done for somebody elsewhere. */
export const kindServer = 1;
