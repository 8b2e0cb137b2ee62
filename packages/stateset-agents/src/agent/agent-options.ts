import { z } from "zod";
import { type TemplateVariables, templateVariablesSchema } from "../conversation/template-variables.ts";
import type { ToolDefinition } from "../conversation/tool-definition.ts";
import { toolsSchema } from "../conversation/tool-definition.ts";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import { withEngineName } from "../policy/engine-choice.ts";
import { type EngineName, engineNames } from "../policy/engines.ts";
import { precisions, referencePrecisions, trainingPrecisions } from "../policy/native/precision.ts";
import type { OpenPolicyOptions } from "../policy/open-policy.ts";
import { loraSchema, samplingSchema } from "../policy/option-schemas.ts";
import { defaultSampling, type LoraOptions, type Policy, type Sampling } from "../policy/policy.ts";
import { torchSchema } from "../policy/torch/torch-options.ts";
import { constrainSchema, readLimits } from "../tool/constrain/limits.ts";
import { type CallFormatName, callFormatNames } from "../tool/format/call-format.ts";
import { type ReadTools, readTools, type ToolsInput } from "../tool/read-tools.ts";
import type { Approval } from "../tool/run-calls.ts";
import { type ContextWindowOptions, contextStrategies, contextWindowSchema } from "./context-window.ts";
import { ConversationMemory, type MemoryOptions, memoryOptionsSchema } from "./memory.ts";

export type HubOptions = Pick<OpenPolicyOptions, "revision" | "token" | "offline" | "cacheDir" | "onProgress">;

type Some<T> = { [K in keyof T]?: T[K] | undefined };

export interface AgentOptions {
  /** A folder in Hugging Face layout or a hub id. Default: the bundled starter model. */
  model?: string | undefined;
  systemPrompt?: string | undefined;
  /** How replies are sampled; what is left out comes from `defaultSampling`. */
  sampling?: Some<Sampling> | undefined;
  /** Train a small adapter instead of all weights. `true` for the defaults. */
  lora?: boolean | Some<LoraOptions> | undefined;
  /** How the model's weights lie in memory: see openPolicy(). */
  precision?: OpenPolicyOptions["precision"] | undefined;
  /** How the frozen copy lies that training compares with: see openPolicy(). */
  referencePrecision?: OpenPolicyOptions["referencePrecision"] | undefined;
  /** How the optimiser's moments lie in memory: see openPolicy(). */
  moments?: OpenPolicyOptions["moments"] | undefined;
  /** What gradients are computed from: see openPolicy(). */
  gradients?: OpenPolicyOptions["gradients"] | undefined;
  /** No model: play these replies. For trying things out; never trainable, and marked as a stub everywhere. */
  stub?: OpenPolicyOptions["stub"] | undefined;
  /** Where and how models named by a hub id are downloaded. */
  hub?: HubOptions | undefined;
  /**
   * What the model can call: tools of tool(), which the agent runs by itself; definitions, which are shown alone; the AI SDK's, by name.
   */
  tools?: ToolsInput | undefined;
  /** Names of tools that must come with code, because the agent was saved with it. Kept in agent.json. */
  runs?: readonly string[] | undefined;
  /** How the model writes calls. Default: as its chat template does. Given, calls are read also where no tool can be run. */
  callFormat?: CallFormatName | undefined;
  /**
   * Calls are valid by construction: from a call's opening on, only tokens that keep it one of a tool it is shown, with arguments that fit
   * the tool's schema, can be drawn. `true`, or the limits: { maxLength: 128, maxItems: 8, maxDepth: 3 }. Not while training,
   * unless train() is told so. Default false.
   */
  constrain?:
    | boolean
    | { maxLength?: number | undefined; maxItems?: number | undefined; maxDepth?: number | undefined }
    | undefined;
  /** Rounds of calls in one reply, after which calls are not run any more. Default 8. */
  maxToolSteps?: number | undefined;
  /** Tokens of a tool's result, its own or the environment's, that the model is shown at most; the rest is cut off, with a note. Default 512. */
  maxResultTokens?: number | undefined;
  /** Asked before a tool that needs approval runs; anything but `true` refuses. */
  approve?: ((request: Approval) => boolean | Promise<boolean>) | undefined;
  /** What the chat template is told beside the conversation: `{ enable_thinking: false }`. */
  templateVariables?: TemplateVariables | undefined;
  /** Keep what stands in `<think>…</think>` apart, as the message's `reasoning`. */
  reasoning?: boolean | undefined;
  /** What computes: see openPolicy(). */
  engine?: OpenPolicyOptions["engine"] | undefined;
  /** Of the engine "torch": which GPUs or which worker. See openPolicy(). */
  torch?: OpenPolicyOptions["torch"] | undefined;
  /** Threads of the embedded engine. Default: all cores. */
  threads?: number | undefined;
  /** Replies sampled together, memory for their keys and values and for what training reuses of them, and requests that may wait: see openPolicy(). */
  slots?: number | undefined;
  cacheBytes?: number | undefined;
  activationBytes?: number | undefined;
  maxWaiting?: number | undefined;
  /** Makes replies repeatable. Without it every reply is drawn anew. */
  seed?: number | undefined;
  /** What happens when a conversation outgrows the model. Without it the conversation ends. */
  contextWindow?: ContextWindowOptions | ContextWindowOptions["strategy"] | undefined;
  memory?: ConversationMemory | MemoryOptions | undefined;
  /** A policy that is already open. The agent uses it but does not close it. */
  policy?: Policy | undefined;
}

/** The defaults of `lora: true`. No dropout: the policy that is trained is the policy that sampled. */
export const defaultLora: LoraOptions = { rank: 16, alpha: 32, dropout: 0, targetModules: "all-linear" };

export const defaultResultTokens = 512;

/** The part of the options that is plain data: what `agent.json` keeps. */
export const storedOptionsShape = {
  systemPrompt: z.string().optional(),
  sampling: samplingSchema.partial().optional(),
  tools: toolsSchema.optional(),
  runs: z.array(z.string()).optional(),
  callFormat: z.enum(callFormatNames).optional(),
  constrain: constrainSchema.optional(),
  maxToolSteps: z.int().min(0).optional(),
  maxResultTokens: z.int().min(16).optional(),
  templateVariables: templateVariablesSchema.optional(),
  reasoning: z.boolean().optional(),
  seed: z.int().min(0).optional(),
  contextWindow: z.union([z.enum(contextStrategies), contextWindowSchema]).optional(),
};

const agentOptionsSchema = z.strictObject({
  ...storedOptionsShape,
  tools: z
    .custom<ToolsInput>(
      (value) => typeof value === "object" && value !== null,
      "a list of tools, or tools by name, was expected",
    )
    .optional(),
  approve: z
    .custom<AgentOptions["approve"]>((value) => typeof value === "function", "a function was expected")
    .optional(),
  model: z.string().min(1).optional(),
  lora: z.union([z.boolean(), loraSchema.partial()]).optional(),
  stub: z
    .strictObject({
      replies: z.union([z.array(z.string()).min(1), z.custom<() => string>((value) => typeof value === "function")]),
      dryRun: z.boolean(),
    })
    .partial()
    .optional(),
  hub: z
    .strictObject({
      revision: z.string(),
      token: z.string(),
      offline: z.boolean(),
      cacheDir: z.string(),
      onProgress: z.custom<() => void>((value) => typeof value === "function", "not a function"),
    })
    .partial()
    .optional(),
  engine: z.enum(engineNames).optional(),
  torch: torchSchema.optional(),
  precision: z.enum(precisions).optional(),
  referencePrecision: z.enum(referencePrecisions).optional(),
  moments: z.enum(trainingPrecisions).optional(),
  gradients: z.enum(trainingPrecisions).optional(),
  threads: z.int().min(1).optional(),
  slots: z.int().min(1).optional(),
  cacheBytes: z.int().min(0).optional(),
  activationBytes: z.int().min(0).optional(),
  maxWaiting: z.int().min(0).optional(),
  memory: z.union([z.instanceof(ConversationMemory), memoryOptionsSchema]).optional(),
  policy: z.custom<Policy>((value) => typeof value === "object" && value !== null && "sample" in value).optional(),
});

export interface ResolvedAgentOptions {
  model: string | undefined;
  systemPrompt: string | undefined;
  sampling: Sampling;
  lora: LoraOptions | undefined;
  precision: OpenPolicyOptions["precision"] | undefined;
  referencePrecision: OpenPolicyOptions["referencePrecision"] | undefined;
  moments: OpenPolicyOptions["moments"] | undefined;
  gradients: OpenPolicyOptions["gradients"] | undefined;
  stub: OpenPolicyOptions["stub"] | undefined;
  hub: HubOptions | undefined;
  tools: readonly ToolDefinition[] | undefined;
  /** Those of them that the agent runs. */
  runnable: ReadTools["runnable"];
  callFormat: CallFormatName | undefined;
  /** Undefined: calls are not constrained. */
  constrain: { maxLength: number; maxItems: number; maxDepth: number } | undefined;
  maxToolSteps: number;
  maxResultTokens: number;
  approve: AgentOptions["approve"];
  templateVariables: TemplateVariables | undefined;
  reasoning: boolean;
  engine: EngineName | undefined;
  torch: OpenPolicyOptions["torch"] | undefined;
  threads: number | undefined;
  slots: number | undefined;
  cacheBytes: number | undefined;
  activationBytes: number | undefined;
  maxWaiting: number | undefined;
  seed: number | undefined;
  contextWindow: ContextWindowOptions | undefined;
  memory: ConversationMemory | undefined;
  policy: Policy | undefined;
}

export function resolveAgentOptions(options: AgentOptions): ResolvedAgentOptions {
  const parsed = parseOptions(agentOptionsSchema, withEngineName(options), "agent");
  const { lora, memory, contextWindow } = parsed;
  const tools = parsed.tools && readTools(parsed.tools, "agent.tools");
  requireCode(parsed.runs ?? [], tools);
  return {
    model: parsed.model,
    systemPrompt: parsed.systemPrompt,
    sampling: { ...defaultSampling, ...defined(parsed.sampling ?? {}) },
    lora:
      lora === undefined || lora === false ? undefined : { ...defaultLora, ...(lora === true ? {} : defined(lora)) },
    stub: parsed.stub && defined(parsed.stub),
    hub: parsed.hub && defined(parsed.hub),
    tools: tools?.definitions,
    runnable: tools?.runnable ?? new Map(),
    callFormat: parsed.callFormat,
    constrain: parsed.constrain === undefined || parsed.constrain === false ? undefined : readLimits(parsed.constrain),
    maxToolSteps: parsed.maxToolSteps ?? 8,
    maxResultTokens: parsed.maxResultTokens ?? defaultResultTokens,
    approve: parsed.approve,
    templateVariables: parsed.templateVariables,
    reasoning: parsed.reasoning ?? false,
    engine: parsed.engine,
    torch: parsed.torch && defined(parsed.torch),
    precision: parsed.precision,
    referencePrecision: parsed.referencePrecision,
    moments: parsed.moments,
    gradients: parsed.gradients,
    threads: parsed.threads,
    slots: parsed.slots,
    cacheBytes: parsed.cacheBytes,
    activationBytes: parsed.activationBytes,
    maxWaiting: parsed.maxWaiting,
    seed: parsed.seed,
    contextWindow: typeof contextWindow === "string" ? { strategy: contextWindow } : contextWindow,
    memory: memory === undefined || memory instanceof ConversationMemory ? memory : new ConversationMemory(memory),
    policy: parsed.policy,
  };
}

function requireCode(names: readonly string[], tools: ReadTools | undefined): void {
  const missing = names.filter((name) => !tools?.runnable.has(name));
  if (missing.length === 0) return;
  const list = missing.map((name) => `"${name}"`).join(", ");
  throw new StatesetError("TOOL_MISSING", `The agent was saved with tools whose code is not here: ${list}.`, {
    hint: "Give them: loadAgentFromCheckpoint(path, { tools: [ … ] }). The command line takes them from the agent of stateset.config.ts.",
  });
}

/** The tools as an agent takes them. */
export function toolsOf({ tools, runnable }: Pick<ResolvedAgentOptions, "tools" | "runnable">): ToolsInput | undefined {
  return tools?.map((definition) => runnable.get(definition.function.name) ?? definition);
}

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Without the keys whose value is undefined, so that they do not override defaults. */
export function defined<T extends object>(value: T): Defined<T> {
  return Object.fromEntries(Object.entries(value).filter(([, part]) => part !== undefined)) as Defined<T>;
}
