import { StatesetError } from "../error.ts";
import type { ToolsInput } from "../tool/read-tools.ts";
import type { AgentOptions } from "./agent-options.ts";
import { MultiTurnAgent } from "./multi-turn-agent.ts";

/** A MultiTurnAgent that must have tools to run: the same loop, and an error where they were forgotten. */
export class ToolAgent extends MultiTurnAgent {
  constructor(options: AgentOptions & { tools: ToolsInput }) {
    super(options);
    if (this.options.runnable.size > 0) return;
    throw new StatesetError("INVALID_OPTION", "ToolAgent got no tool that it could run.", {
      hint: "Give at least one of tool({ name, parameters, execute }). Definitions alone are for a MultiTurnAgent.",
    });
  }
}
