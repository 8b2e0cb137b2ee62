/** What to say of conversations of which none came to an end of its own: what filled the context. */
import type { Agent } from "../agent/agent.ts";
import { isReply, type Trajectory, type TrajectoryGroup } from "../conversation/trajectory.ts";
import { counted } from "../counted.ts";
import { mean } from "./estimate.ts";

/** Undefined where one ended otherwise. */
export function fullContextText(
  groups: readonly TrajectoryGroup[],
  { model, tokenizer }: Agent["policy"],
  maxTurns: number,
): string | undefined {
  const played = groups.flatMap(({ trajectories }) => trajectories);
  if (played.length === 0 || played.some(({ ended }) => ended !== "context-full")) return undefined;
  const count = (text: string) => tokenizer.encode(text).length;
  return `every conversation (${played.length}) ended because the context of ${model.name} was full, ${model.contextLength} tokens. ${fillText(played, count, { ...model, maxTurns })} A model with a larger context, or the agent's contextWindow, which leaves out what is oldest, gives room as well.`;
}

/** What a conversation held, on the average, and what to change about the largest part of it. */
function fillText(
  played: readonly Trajectory[],
  count: (text: string) => number,
  { contextLength, maxTurns }: { contextLength: number; maxTurns: number },
): string {
  const of = (chosen: (turn: Trajectory["turns"][number]) => boolean) => {
    const turns = played.map((one) => one.turns.filter(chosen));
    const tokens = mean(
      turns.map((own) => own.reduce((sum, turn) => sum + count(turn.sampled?.text ?? turn.content), 0)),
    );
    return { tokens, turns: mean(turns.map((own) => own.length)) };
  };
  const results = of(({ role }) => role === "tool");
  const replies = of(isReply);
  const others = of((turn) => turn.role !== "tool" && !isReply(turn));
  const rest = contextLength - results.tokens - replies.tokens - others.tokens;
  const say = ({ tokens, turns }: { tokens: number; turns: number }, what: string) =>
    turns === 0 ? [] : [`${Math.round(tokens)} tokens in ${counted(Math.round(turns), what)}`];
  const held = [...say(results, "tool result"), ...say(replies, "agent turn"), ...say(others, "other turn")];
  const said = `On the average one held ${held.join(", ")}; the rest is the system prompt, the tools and the template.`;
  const largest = Math.max(results.tokens, replies.tokens, others.tokens, rest);
  if (largest === results.tokens) return `${said} Lower the agent's maxResultTokens, or let tools return less.`;
  if (largest === replies.tokens)
    return `${said} Lower maxTurns (${maxTurns}), sampling.maxTokens or the agent's maxToolSteps.`;
  if (largest === others.tokens) return `${said} Lower maxTurns (${maxTurns}), or shorten what the environment says.`;
  return `${said} Shorten the system prompt, or show fewer tools.`;
}
