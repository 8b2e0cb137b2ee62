/** Keys of Python configurations whose meaning depends on their value or on other keys: mapped by that meaning, or refused. */
import type { ContextWindowOptions } from "../agent/context-window.ts";
import { StatesetError } from "../error.ts";
import type { MappedConfig } from "./python-config.ts";

type PythonRecord = Readonly<Record<string, unknown>>;

interface Rule {
  keys: readonly string[];
  /** `given` has no key without a value. */
  apply(given: PythonRecord, config: MappedConfig): void;
}

function refuse(key: string, why: string, hint: string): never {
  throw new StatesetError("INVALID_OPTION", `"${key}" in the configuration cannot be taken over: ${why}`, { hint });
}

function countOf(given: PythonRecord, key: string): number | undefined {
  const value = given[key];
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value > 0) return value;
  return refuse(key, `${JSON.stringify(value)} is no count.`, "Give a whole number above 0.");
}

function flagOf(given: PythonRecord, key: string): boolean | undefined {
  const value = given[key];
  if (value === undefined || typeof value === "boolean") return value;
  return refuse(key, `${JSON.stringify(value)} is neither true nor false.`, "Give true or false.");
}

function ignore(config: MappedConfig, given: PythonRecord, keys: readonly string[], reason: string): void {
  for (const key of keys) if (given[key] !== undefined) config.ignored.push({ key, reason });
}

/** TRL counts a step's batch in completions, on all devices together, and refuses one that is not of whole groups. */
const batchSizes: Rule = {
  keys: ["per_device_train_batch_size", "gradient_accumulation_steps"],
  apply(given, config) {
    const batch = countOf(given, "per_device_train_batch_size");
    const accumulation = countOf(given, "gradient_accumulation_steps");
    if (batch === undefined && accumulation === undefined) return;
    const size = countOf(given, "num_generations");
    const key = batch === undefined ? "gradient_accumulation_steps" : "per_device_train_batch_size";
    if (batch === undefined || size === undefined) {
      const missing = batch === undefined ? "per_device_train_batch_size" : "num_generations";
      return refuse(
        key,
        `batch sizes are counted in conversations, and without ${missing} they do not say how many scenarios a step has.`,
        `Give ${missing} as well, or groupsPerStep (scenarios a step) instead of the batch sizes.`,
      );
    }
    const conversations = batch * (accumulation ?? 1);
    if (conversations % size !== 0) {
      return refuse(
        key,
        `${batch} × ${accumulation ?? 1} = ${conversations} conversations a step are no whole groups of num_generations: ${size}.`,
        `Give groupsPerStep (scenarios a step, each played ${size} times) instead of the batch sizes, and tokenBudget to limit memory.`,
      );
    }
    config.training.groupsPerStep = conversations / size;
  },
};

/** TRL's steps are the optimiser's; ours are rounds of sampling, with as many optimiser steps as there are passes. */
const optimiserSteps: Rule = {
  keys: [],
  apply(given, { training }) {
    const passes = countOf(given, "num_iterations") ?? 1;
    const rounds = (key: string) => (given[key] === 0 ? 0 : Math.ceil(countOf(given, key)! / passes));
    if (passes === 1) return;
    if (given.max_steps !== undefined) training.steps = rounds("max_steps");
    if (given.save_steps !== undefined) training.checkpoint = { ...training.checkpoint, every: rounds("save_steps") };
    if (given.eval_steps !== undefined) training.evaluation = { ...training.evaluation, every: rounds("eval_steps") };
    if (given.ref_model_sync_steps !== undefined)
      training.kl = { ...training.kl, renewEvery: rounds("ref_model_sync_steps") };
  },
};

/** Passes over all scenarios, not over a rollout; how many steps that is, only the scenarios know. */
const epochs: Rule = {
  keys: ["num_train_epochs", "num_epochs"],
  apply(given, config) {
    for (const key of epochs.keys) {
      if (given[key] === undefined) continue;
      const length = ["max_steps", "num_outer_iterations", "num_episodes"].find((one) => given[one] !== undefined);
      if (length === "max_steps" || (length !== undefined && given[key] === 1)) {
        config.ignored.push({ key, reason: `${length} says how long the run is.` });
        continue;
      }
      refuse(
        key,
        `it counts passes over the scenarios, and a run here is as long as its steps or conversations.`,
        "Give max_steps, or num_episodes: for E passes over S scenarios, E × S × num_generations. Passes over each rollout are num_iterations.",
      );
    }
  },
};

const stub: Rule = {
  keys: ["use_stub_model", "stub_responses"],
  apply(given, config) {
    const named = config.agent.model?.startsWith("stub://") === true;
    const replies = given.stub_responses as string[] | undefined;
    if (flagOf(given, "use_stub_model")) config.agent.stub = replies === undefined ? {} : { replies };
    else if (named && replies !== undefined) config.agent.stub = { replies };
    else ignore(config, given, ["stub_responses"], "They are played with use_stub_model: true alone.");
  },
};

const compression: Rule = {
  keys: ["enable_context_compression", "compression_ratio", "compression_strategy"],
  apply(given, config) {
    if (!flagOf(given, "enable_context_compression")) {
      const reason = "Conversations are cut with enable_context_compression: true alone.";
      ignore(config, given, ["compression_ratio", "compression_strategy"], reason);
      return;
    }
    const strategy = given.compression_strategy;
    if (strategy !== "truncate" && strategy !== "summary" && strategy !== "sliding_window") {
      const why =
        strategy === undefined
          ? "it says that conversations are cut, and nothing says how."
          : `${JSON.stringify(strategy)} is no way to cut a conversation.`;
      return refuse(
        strategy === undefined ? "enable_context_compression" : "compression_strategy",
        why,
        'Give compression_strategy: "truncate", "sliding_window" or "summary".',
      );
    }
    const window: ContextWindowOptions = { strategy: strategy === "sliding_window" ? "sliding-window" : strategy };
    if (given.compression_ratio !== undefined) window.keep = given.compression_ratio as number;
    config.agent.contextWindow = window;
  },
};

const device: Rule = {
  keys: ["device_map"],
  apply({ device_map: map }, config) {
    if (map === undefined) return;
    if (map !== "auto" && map !== "cpu") {
      refuse("device_map", `the engine computes on the CPU, not on ${JSON.stringify(map)}.`, "Leave device_map out.");
    }
    config.ignored.push({ key: "device_map", reason: "The engine computes on the CPU." });
  },
};

const klPenalty: Rule = {
  keys: ["kl_penalty"],
  apply({ kl_penalty: weight, beta, kl_coef }, config) {
    if (weight === undefined) return;
    if (typeof weight !== "number") {
      refuse(
        "kl_penalty",
        `${JSON.stringify(weight)} is no weight.`,
        "Give a number; kl.estimator chooses how it is estimated.",
      );
    }
    const other = beta !== undefined ? "beta" : kl_coef !== undefined ? "kl_coef" : undefined;
    if (other)
      refuse("kl_penalty", `it would come on top of ${other}, which weighs the same thing.`, "Give one of them.");
    config.training.kl = { ...config.training.kl, coefficient: weight as number };
  },
};

export const rulesOverSeveralKeys: readonly Rule[] = [
  batchSizes,
  optimiserSteps,
  epochs,
  stub,
  compression,
  device,
  klPenalty,
];
