import { randomInt } from "node:crypto";
import { linkSignals } from "../abort.ts";
import type { ChainBuilder } from "../conversation/chain.ts";
import type { Message, MessageInput } from "../conversation/message.ts";
import { mergeVariables } from "../conversation/template-variables.ts";
import { type ToolDefinition, withProperties } from "../conversation/tool-definition.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { validateMessages } from "../conversation/validate-messages.ts";
import { fingerprint } from "../describe.ts";
import type { Scenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import type { ByteAutomaton, Policy, Sampling } from "../policy/policy.ts";
import { seedOf } from "../random.ts";
import { ConstraintCache } from "../tool/constrain/constraint-cache.ts";
import { readLimits } from "../tool/constrain/limits.ts";
import { type CallFormat, requireNames } from "../tool/format/call-format.ts";
import { callFormats, type TemplateTools, toolsOfTemplate } from "../tool/format/choose-format.ts";
import { toolsInWords } from "../tool/format/tools-in-words.ts";
import { Agent, type AgentContext, checkContext, type HookContext } from "./agent.ts";
import { storedOptions, writeAgentFile } from "./agent-file.ts";
import { type AgentOptions, defined, type ResolvedAgentOptions, resolveAgentOptions } from "./agent-options.ts";
import { ChainIndex } from "./chain-index.ts";
import { PolicySession, type PolicySessionOptions } from "./policy-session.ts";
import type { ConversationOptions, ConversationSession, Reply } from "./session.ts";
import { summarizeWith } from "./summarize.ts";

/** What one conversation does otherwise than its agent. */
export interface SessionOptions extends Pick<ConversationOptions, "seed" | "templateVariables" | "learn"> {
  tools: readonly ToolDefinition[];
  sampling: Sampling;
  constraint?: ByteAutomaton | undefined;
}

/**
 * A conversation for whoever samples by himself, as the server does: prepare() gives tokens, take() makes a reply of what was sampled.
 * Calls are read where `tools` are given; nothing is run.
 */
export let openSession: (agent: MultiTurnAgent, options: SessionOptions, chain?: ChainBuilder) => PolicySession;

export type AgentReply = Extract<Reply, { kind: "reply" }>;

/**
 * An agent that holds conversations with a language model.
 * Subclasses change its behaviour by overriding beforeGeneration and afterGeneration; training sees the same hooks.
 */
export class MultiTurnAgent extends Agent {
  readonly options: Readonly<ResolvedAgentOptions>;
  #policy: Policy | undefined;
  #opening: Promise<void> | undefined;
  readonly #answered = new ChainIndex();
  #told: TemplateTools | undefined;
  #constraints: ConstraintCache | undefined;

  static {
    openSession = (agent, { sampling, constraint, tools, ...rest }, chain) => {
      // As an environment's: somebody else runs them.
      const conversation = { ...rest, tools: [], environmentTools: tools, constrain: false };
      return agent.#session(conversation, {}, chain, { sampling, ...(constraint && { constraint }) });
    };
  }

  constructor(options: AgentOptions = {}) {
    super();
    this.options = resolveAgentOptions(options);
    this.#policy = this.options.policy;
  }

  /** An initialised agent for a model: `await MultiTurnAgent.fromModel("Qwen/Qwen3-0.6B", { lora: true })`. */
  static async fromModel<A extends MultiTurnAgent>(
    this: new (
      options: AgentOptions,
    ) => A,
    model: string,
    options: Omit<AgentOptions, "model"> = {},
  ): Promise<A> {
    const agent = new this({ ...options, model });
    await agent.initialize();
    return agent;
  }

  override async initialize(): Promise<void> {
    if (this.#policy) return;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    await this.#opening;
  }

  async #open(): Promise<void> {
    const { model, lora, precision, referencePrecision, moments, gradients, stub, hub, engine, torch } = this.options;
    const { threads, slots, cacheBytes, activationBytes, maxWaiting, seed } = this.options;
    // Loaded late: an agent on an injected policy needs neither engine nor tokenizer.
    const { openPolicy } = await import("../policy/open-policy.ts");
    const kept = { lora, precision, referencePrecision, moments, gradients };
    const limits = { threads, slots, cacheBytes, activationBytes, maxWaiting };
    this.#policy = await openPolicy(defined({ ...hub, ...kept, ...limits, model, stub, engine, torch, seed }));
  }

  override get policy(): Policy {
    if (!this.#policy) {
      throw new StatesetError("POLICY_CLOSED", "The agent has no model yet.", {
        hint: "Call `await agent.initialize()` first.",
      });
    }
    return this.#policy;
  }

  override get sampling(): Readonly<Sampling> {
    return this.options.sampling;
  }

  override describe(): Record<string, unknown> {
    const { memory, runnable } = this.options;
    const code = Object.fromEntries([...runnable].map(([name, { execute }]) => [name, fingerprint(execute)]));
    return {
      ...super.describe(),
      ...storedOptions(this.options),
      ...(runnable.size > 0 && { code }),
      ...(memory && { memory: memory.options }),
    };
  }

  /** Override to change what the model is shown. Messages come without the agent's system prompt. */
  protected beforeGeneration(messages: readonly Turn[], _context: HookContext): Message[] | Promise<Message[]> {
    return [...messages];
  }

  /** Override to change what is given out. Training still sees the tokens that were sampled. */
  protected afterGeneration(reply: Turn, _messages: readonly Turn[], _context: HookContext): Turn | Promise<Turn> {
    return reply;
  }

  override startConversation(options: ConversationOptions = {}): ConversationSession {
    return this.#session(options, options.scenario ? { scenario: options.scenario } : {});
  }

  override async generateResponse(messages: readonly MessageInput[], context: AgentContext = {}): Promise<string> {
    return (await this.respond(messages, context)).turn.content;
  }

  /** Like generateResponse, with everything that is known about the reply. */
  async respond(messages: readonly MessageInput[], context: AgentContext = {}): Promise<AgentReply> {
    checkContext(context);
    return this.#respond(messages, context);
  }

  override async processTurn(
    messages: readonly MessageInput[],
    userInput: string,
    context: AgentContext = {},
  ): Promise<Turn> {
    const user: Message = { role: "user", content: userInput };
    const { turn } = await this.respond([...messages, user], context);
    const { memory } = this.options;
    if (memory) {
      memory.add(context.conversationId ?? "", user, turn);
      const { templateVariables } = this.options;
      const options = { maxTokens: 96, seed: 0, templateVariables, ...(context.signal && { signal: context.signal }) };
      await memory.condense((part) => summarizeWith(this.policy, part, options));
    }
    return turn;
  }

  override async *stream(messages: readonly MessageInput[], context: AgentContext = {}): AsyncGenerator<string, void> {
    checkContext(context);
    // A hook may change the whole reply; then nothing can be given out before it has run.
    const whole = this.changesReplies;
    // In one queue, so that a turn is told of after its words.
    const queue: (string | Turn)[] = [];
    let wake: (() => void) | undefined;
    const push = (one: string | Turn) => {
      if (one !== "") queue.push(one);
      wake?.();
    };
    const onTurn = (turn: Turn) => {
      if (whole && turn.role === "assistant") push(turn.content);
      push(turn);
    };
    const controller = new AbortController();
    const { signal, unlink } = linkSignals(context.signal, controller.signal);
    let running = true;
    const reply = this.#respond(messages, { ...context, signal, onTurn }, whole ? undefined : push).finally(() => {
      running = false;
      wake?.();
    });
    // Awaited below; until then a failure must not count as unhandled.
    reply.catch(() => {});
    try {
      while (running || queue.length > 0) {
        const next = queue.shift();
        if (typeof next === "string") yield next;
        else if (next !== undefined) context.onTurn?.(next);
        else
          await new Promise<void>((resolve) => {
            wake = resolve;
            if (!running || queue.length > 0) resolve();
          });
      }
      await reply;
    } finally {
      // A reader that leaves early stops the sampling.
      if (running) controller.abort();
      unlink();
    }
  }

  override async save(dir: string, options: { merge?: boolean; dtype?: "f32" | "bf16" } = {}): Promise<void> {
    await this.policy.save(dir, options);
    await writeAgentFile(dir, this.options);
  }

  override async close(): Promise<void> {
    await this.#opening;
    const policy = this.#policy;
    this.#policy = undefined;
    this.#answered.clear();
    this.#constraints = undefined;
    if (policy && policy !== this.options.policy) await policy.close();
  }

  async #respond(
    messages: readonly MessageInput[],
    context: AgentContext,
    onText?: (text: string) => void,
  ): Promise<AgentReply> {
    const valid = validateMessages(messages);
    if (valid.length === 0 || valid.at(-1)!.role === "assistant") {
      throw new StatesetError("INVALID_MESSAGE", "There is no message to answer.", {
        hint: "The last message must be a user or tool message.",
      });
    }
    const seed = context.seed ?? this.options.seed ?? randomInt(2 ** 32);
    const options = { seed: seedOf(seed, "response"), learn: false };
    const session = this.#session(options, context, this.#answered.find(valid, context.conversationId));
    const reply = await session.reply(valid, {
      ...(context.signal && { signal: context.signal }),
      ...(context.onTurn && { onTurn: context.onTurn }),
      ...(onText && { onText }),
    });
    if (reply.kind === "reply") {
      const before = [...valid, ...reply.turns.slice(0, -1)];
      this.#answered.keep(before, reply.turn, session.lastChain!, context.conversationId);
      return reply;
    }
    throw this.#overflow(session, valid);
  }

  #overflow(session: PolicySession, messages: readonly Message[]): StatesetError {
    const { name, contextLength } = this.policy.model;
    const system = messages.filter(({ role }, i) => i === 0 && (role === "system" || role === "developer"));
    const newest = messages.slice(messages.findLastIndex(({ role }) => role === "user"));
    const alone = session.countTokens([...system, ...newest]);
    const { length: tools } = this.options.tools ?? [];
    if (alone > session.room) {
      return new StatesetError(
        "CONTEXT_OVERFLOW",
        `The last message alone is too long for ${name}: with the system prompt${tools > 0 ? ` and ${tools} tools` : ""} it takes ${alone} tokens, and there is room for ${session.room} beside a reply.`,
        { hint: tools > 0 ? "Shorten it, or give the agent fewer tools." : "Shorten it." },
      );
    }
    return new StatesetError(
      "CONTEXT_OVERFLOW",
      `The conversation is too long for ${name}, whose context is ${contextLength} tokens.`,
      {
        hint: this.options.contextWindow
          ? "Shorten the last message."
          : 'Set contextWindow: "truncate", "sliding-window" or "summary", or send fewer messages.',
      },
    );
  }

  /** Whether a subclass changes what is given out, so that nothing of a reply can be given out before it is whole. */
  get changesReplies(): boolean {
    return this.afterGeneration !== MultiTurnAgent.prototype.afterGeneration;
  }

  #session(
    options: ConversationOptions,
    context: HookContext,
    chain?: ChainBuilder,
    own: Partial<Pick<PolicySessionOptions, "sampling" | "constraint">> = {},
  ): PolicySession {
    const { sampling, templateVariables, reasoning, contextWindow } = this.options;
    const { scenario, environmentTools = [] } = options;
    const given = options.tools ?? scenario?.tools ?? this.options.tools ?? [];
    const shown = shownTools(given, environmentTools, this.options.runnable);
    const { told, ...calls } = this.#calls(shown, options, context);
    const system = this.#systemPrompt(scenario, context.conversationId);
    return new PolicySession({
      policy: this.policy,
      sampling: {
        ...sampling,
        ...(options.temperature !== undefined && { temperature: options.temperature }),
        ...(options.maxTokens !== undefined && { maxTokens: options.maxTokens }),
      },
      system: told === undefined ? system : [system, told].filter(Boolean).join("\n\n"),
      tools: told !== undefined || shown.length === 0 ? undefined : shown,
      ...calls,
      maxResultTokens: this.options.maxResultTokens,
      templateVariables: mergeVariables(templateVariables, scenario?.templateVariables, options.templateVariables),
      seed: options.seed ?? this.options.seed ?? 0,
      learn: options.learn ?? true,
      keepActivations: options.keepActivations ?? false,
      reasoning,
      contextWindow,
      chain,
      before: (messages) => this.beforeGeneration(messages, context),
      after: (reply, messages) => this.afterGeneration(reply, messages, context),
      ...own,
    });
  }

  /** How calls are read and run; nothing of it where the agent can run none and nobody asked. `told`: the tools in words, for templates without a place for them. */
  #calls(
    shown: readonly ToolDefinition[],
    { environmentTools = [], ...options }: ConversationOptions,
    { conversationId }: AgentContext,
  ): Pick<PolicySessionOptions, "format" | "loop" | "tell" | "constraint"> & { told?: string } {
    const { runnable, callFormat, maxToolSteps, approve } = this.options;
    const constrained = shown.length > 0 && (options.constrain ?? this.options.constrain !== undefined);
    if (runnable.size === 0 && environmentTools.length === 0 && callFormat === undefined && !constrained) return {};
    const template = this.#templateTools(shown);
    const format = callFormat ? callFormats[callFormat] : template.format;
    const elsewhere = new Set(environmentTools.map((tool) => tool.function.name));
    // What is not shown here, because the scenario has tools of its own, is not run either.
    const names = new Set(shown.map((tool) => tool.function.name));
    const tools = new Map([...runnable].filter(([name]) => names.has(name)));
    return {
      format,
      tell: { format, ...template.tell },
      ...(constrained && { constraint: this.#constraint(shown, format) }),
      loop: { tools, elsewhere, maxToolSteps, approve, conversationId },
      ...(!template.shown && shown.length > 0 && { told: toolsInWords(shown, format) }),
    };
  }

  #constraint(tools: readonly ToolDefinition[], format: CallFormat): ByteAutomaton {
    const { constrain = readLimits(true), reasoning } = this.options;
    this.#constraints ??= new ConstraintCache(this.policy);
    return this.#constraints.of({ tools, format, limits: constrain, reasoning });
  }

  #templateTools(shown: readonly ToolDefinition[]): TemplateTools {
    if (!this.#told) {
      this.#told = toolsOfTemplate(this.policy.tokenizer);
      if (!this.#told.shown && shown.length > 0 && !warnedOf.has(this.policy.tokenizer)) {
        warnedOf.add(this.policy.tokenizer);
        process.emitWarning(
          `The chat template of ${this.policy.model.name} has no place for tools; they are told in the system prompt.`,
        );
      }
    }
    requireNames(this.options.callFormat ? callFormats[this.options.callFormat] : this.#told.format, shown);
    return this.#told;
  }

  /** Memory is read once per conversation: what is remembered meanwhile does not rewrite a prompt that has begun. */
  #systemPrompt(scenario: Scenario | undefined, conversationId: string | undefined): string | undefined {
    const parts = [
      scenario?.systemPrompt ?? this.options.systemPrompt,
      scenario?.context,
      this.options.memory?.recall(conversationId ?? ""),
    ];
    return parts.filter(Boolean).join("\n\n") || undefined;
  }
}

/** Models whose template has no place for tools: it is said once of each, however many agents use it. */
const warnedOf = new WeakSet<object>();

/** What the model is told of: the agent's tools and those of the environment, each name once. Who runs a tool must be plain. */
function shownTools(
  own: readonly ToolDefinition[],
  environmentTools: readonly ToolDefinition[],
  runnable: ReadonlyMap<string, unknown>,
): ToolDefinition[] {
  const elsewhere = new Set(environmentTools.map((tool) => tool.function.name));
  const twice = own.find(({ function: { name } }) => elsewhere.has(name) && runnable.has(name))?.function.name;
  const others = own.filter((tool) => !elsewhere.has(tool.function.name));
  if (twice === undefined) return [...others, ...environmentTools].map(withProperties);
  throw new StatesetError(
    "INVALID_OPTION",
    `The agent and the environment both have a tool "${twice}", and each would run its own.`,
    { hint: "Leave it out of the agent's `tools`, so that the environment runs it, or give one of them another name." },
  );
}
