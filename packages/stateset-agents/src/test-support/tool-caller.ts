/** Calls tools as an agent does, for their tests. */
import { readTools, type ToolsInput } from "../tool/read-tools.ts";
import { runCalls, type ToolFailure } from "../tool/run-calls.ts";

export function caller(tools: ToolsInput, signal?: AbortSignal) {
  const { runnable } = readTools(tools);
  return async (name: string, args: unknown = {}): Promise<{ text: string; failure?: ToolFailure }> => {
    const call = { id: "call00001", type: "function" as const, function: { name, arguments: JSON.stringify(args) } };
    const [outcome] = await runCalls([{ call }], { tools: runnable, messages: [], signal });
    const { text, failure } = outcome!;
    return { text, ...(failure && { failure }) };
  };
}
