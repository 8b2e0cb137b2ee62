import type { Message } from "../conversation/message.ts";
import { StatesetError } from "../error.ts";
import { defaultSampling, type Policy, type RenderOptions } from "../policy/policy.ts";

const instruction =
  "Sum up the conversation below in a few short sentences. Keep names, numbers, what the user wants and what was promised.";

/** Lets the model itself sum up messages: greedy, so the same text always gives the same summary. */
export async function summarizeWith(
  policy: Policy,
  messages: readonly Message[],
  options: { maxTokens: number; seed: number; signal?: AbortSignal } & Pick<RenderOptions, "templateVariables">,
): Promise<string> {
  const { tokenizer, model } = policy;
  const prompt = (lines: readonly string[]) =>
    tokenizer.extend(
      undefined,
      [
        { role: "system", content: instruction },
        { role: "user", content: lines.join("\n") },
      ],
      { templateVariables: options.templateVariables, addGenerationPrompt: true },
    ).tokens;
  const maxTokens = Math.min(options.maxTokens, Math.floor(model.contextLength / 4));
  let lines = messages.map(({ role, content }) => `${role}: ${content}`);
  let tokens = prompt(lines);
  // What must be summed up can itself be too long; then its oldest half goes first.
  while (tokens.length + maxTokens > model.contextLength && lines.join("").length > 1) {
    lines = lines.length > 1 ? lines.slice(Math.ceil(lines.length / 2)) : [lines[0]!.slice(lines[0]!.length / 2)];
    tokens = prompt(lines);
  }
  const sampling = { ...defaultSampling, temperature: 0, maxTokens };
  const [sample] = await policy.sample(
    [{ tokens, sampling, seed: options.seed }],
    options.signal ? { signal: options.signal } : {},
  );
  if (sample!.finishReason === "aborted") throw new StatesetError("ABORTED", "Stopped while summing up.");
  return sample!.text.trim();
}
