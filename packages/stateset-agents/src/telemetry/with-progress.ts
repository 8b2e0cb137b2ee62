import type { AnyCallbacks } from "../run/callbacks.ts";
import { createLiveView } from "./live-view.ts";

/** The callbacks of a run, with the live view among them where `progress` asks for it. It comes first: what others say is seen in it. */
export function withProgress({
  callbacks = [],
  progress = false,
}: {
  callbacks?: AnyCallbacks | readonly AnyCallbacks[] | undefined;
  progress?: boolean | undefined;
}): AnyCallbacks[] {
  const given = [callbacks].flat();
  // Not stdout: that is the program's own.
  return progress ? [createLiveView({ stream: process.stderr }), ...given] : given;
}
