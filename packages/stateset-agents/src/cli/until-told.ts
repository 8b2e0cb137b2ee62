import type { InterruptCode } from "./exit-codes.ts";
import type { CliIo } from "./io.ts";

/** For servers. Told once, `end` resolves and it ends when what runs is done; once more, at once. */
export function untilTold(
  server: { close(): Promise<void> },
  io: CliIo,
): { end: Promise<InterruptCode>; leave: () => void } {
  let settle = (_: InterruptCode) => {};
  const end = new Promise<InterruptCode>((resolve) => {
    settle = resolve;
  });
  let count = 0;
  const leave = io.onInterrupt((status) => {
    if (++count > 1) void server.close();
    settle(status);
  });
  return { end, leave };
}
