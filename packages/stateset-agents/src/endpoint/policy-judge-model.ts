import { StatesetError } from "../error.ts";
import { defaultSampling, type Policy } from "../policy/policy.ts";
import { type JudgeModel, JudgeModelError } from "./judge-model.ts";

/**
 * A local policy as the judge: no network, the same weights give the same verdicts. It must not be the policy in training.
 * Answers are cached under `id`: give another one when the weights behind the model's name change. Default: `policy:` and that name.
 */
export function policyJudgeModel(policy: Policy, { id = `policy:${policy.model.name}` } = {}): JudgeModel {
  if (policy.model.stub) {
    throw new StatesetError(
      "INVALID_OPTION",
      "policyJudgeModel() was given a stub policy, whose answers mean nothing.",
      {
        hint: "Load a real model for the judge.",
      },
    );
  }
  return {
    id,
    async complete({ messages, temperature, seed, maxTokens, signal }) {
      const prompt = policy.tokenizer.extend(undefined, messages, { addGenerationPrompt: true }).tokens;
      const room = policy.model.contextLength - prompt.length;
      if (room < 1) {
        throw new JudgeModelError(
          "rejected",
          `the judge's prompt has ${prompt.length} tokens, its context holds ${policy.model.contextLength}`,
        );
      }
      const sampling = { ...defaultSampling, temperature, maxTokens: Math.min(maxTokens, room) };
      const [sample] = await policy.sample([{ tokens: prompt, sampling, seed }], { signal });
      if (!sample || sample.finishReason === "aborted") signal.throwIfAborted();
      return {
        text: sample!.text,
        usage: { promptTokens: prompt.length, completionTokens: sample!.tokens.length },
      };
    },
  };
}
