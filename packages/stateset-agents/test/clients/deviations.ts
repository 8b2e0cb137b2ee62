/** What of an answer is not as OpenAI's would be. */

import { eventsOf } from "../../src/test-support/read-events.ts";
import type { Json } from "../cli.ts";
import { type Kind, openaiProblem } from "../openai-schema.ts";
import type { Sent } from "./real-server.ts";

/** Empty where all is. */
export function deviations({ path, headers, text }: Pick<Sent, "path" | "headers" | "text">): string[] {
  const problem = (json: string, kind: Kind) => openaiProblem(path, JSON.parse(json) as Json, kind) ?? [];
  if (!headers.get("content-type")?.startsWith("text/event-stream")) return [problem(text, "whole")].flat();
  return eventsOf(text).flatMap((data) => (data === "[DONE]" ? [] : problem(data, "event")));
}
