/** The caller's span, in the shape of OpenTelemetry's SpanContext. */
export interface RemoteSpan {
  traceId: string;
  spanId: string;
  traceFlags: number;
  isRemote: true;
}

/** Versions above 00 may have more after a dash; of 00 that is all. */
const form = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** The header `traceparent` of W3C Trace Context. Anything that is not exactly one is no trace: a new one begins. */
export function parseTraceparent(header: string | undefined): RemoteSpan | undefined {
  const [, version, traceId, spanId, flags, more] = form.exec(header ?? "") ?? [];
  if (version === undefined || (version === "00" && more !== undefined)) return undefined;
  return { traceId: traceId!, spanId: spanId!, traceFlags: Number.parseInt(flags!, 16), isRemote: true };
}

/** What OpenTelemetry's API keeps a span under in a context; shared by all its versions. */
const spanKey = Symbol.for("OpenTelemetry Context Key SPAN");

/** A context of OpenTelemetry's shape in which the caller's span is the parent. */
export function contextBelow(parent: RemoteSpan): unknown {
  return contextOf(new Map([[spanKey, { spanContext: () => parent }]]));
}

function contextOf(values: ReadonlyMap<symbol, unknown>): unknown {
  return {
    getValue: (key: symbol) => values.get(key),
    setValue: (key: symbol, value: unknown) => contextOf(new Map([...values, [key, value]])),
    deleteValue: (key: symbol) => contextOf(new Map([...values].filter(([other]) => other !== key))),
  };
}
