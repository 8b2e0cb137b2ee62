type Write = (chunk: string | Uint8Array, ...rest: unknown[]) => unknown;

/**
 * Hands over what is written to some streams, in whole lines, in place of writing it. Call what it returns to have them as they were; a line
 * that has no end yet is handed over then.
 */
export function divert(
  streams: readonly { write(text: string): unknown }[],
  print: (lines: string) => void,
): () => void {
  let begun = "";
  const write: Write = (chunk, ...rest) => {
    begun += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
    const end = begun.lastIndexOf("\n") + 1;
    const whole = begun.slice(0, end);
    begun = begun.slice(end);
    if (whole !== "") print(whole);
    const done = rest.find((one) => typeof one === "function") as (() => void) | undefined;
    if (done) process.nextTick(done);
    return true;
  };
  const before = streams.map((stream) => ({ stream, own: Object.hasOwn(stream, "write"), write: stream.write }));
  for (const { stream } of before) stream.write = write;
  return () => {
    for (const { stream, own, write: was } of before) {
      if (own) stream.write = was;
      else delete (stream as { write?: Write }).write;
    }
    if (begun !== "") print(`${begun}\n`);
    begun = "";
  };
}
