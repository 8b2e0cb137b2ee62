/** Which settings of a run were chosen, by what they would have been. config.json holds what is set, not what was said. */
import { z } from "zod";
import { preferenceLossNames } from "../../algorithm/loss/preference.ts";
import { learningRateFor } from "../../learning/optimiser.ts";
import type { LoraOptions } from "../../policy/policy.ts";
import { shapeFor } from "../../preference/losses.ts";
import { rewardModelShape } from "../../preference/neural-reward-trainer.ts";
import { type ChangedSetting, settingsChanged } from "../../run/changed-settings.ts";
import type { RunConfig } from "../../run/config.ts";
import { fitShape } from "../../supervised/fit-options.ts";
import { valueFitShape } from "../../supervised/value-function.ts";
import { defaultsOf } from "../../training/defaults.ts";

type Facts = Readonly<Record<string, unknown>>;

/** What learns, which is said elsewhere; and what goes by the engine and the model's shape where nothing is said, which config.json does not hold. */
const leftOut = ["algorithm", "loss", "tokenBudget", "maxTokens"];

/** Flat, as train() takes them: the options of an algorithm stand beside the settings of the run. */
export function changedFromDefaults({ learner, algorithm, settings, model }: RunConfig): ChangedSetting[] {
  const of = { parameters: model.parameters, ...(model.lora && { lora: model.lora as unknown as LoraOptions }) };
  const changed =
    learner === "rl"
      ? settingsChanged({ ...settings, ...algorithm }, defaultsOf(algorithm?.algorithm ?? "grpo", { model: of }))
      : settingsChanged(settings, { ...dataDefaults(learner), learningRate: learningRateFor(of) });
  return changed.filter(({ path }) => !leftOut.includes(path));
}

function dataDefaults(learner: Exclude<RunConfig["learner"], "rl">): Facts {
  const loss = preferenceLossNames.find((name) => name === learner);
  if (loss) return z.object(shapeFor(loss)).parse({});
  if (learner === "reward-model") return z.object(rewardModelShape).parse({});
  if (learner === "value-function") return { ...z.object(valueFitShape).parse({}), evaluateEvery: 0 };
  return z.object(fitShape).parse({});
}
