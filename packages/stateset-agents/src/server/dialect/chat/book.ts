/** Who knows the conversations that are asked about: which tokens one goes on from, and where its reply is kept. */
import { openSession } from "../../../agent/multi-turn-agent.ts";
import type { PolicySession, Prompt } from "../../../agent/policy-session.ts";
import type { ChainBuilder } from "../../../conversation/chain.ts";
import type { Sample, Sampling } from "../../../policy/policy.ts";
import type { Exchange } from "../../exchange.ts";
import { HttpError } from "../../http-error.ts";
import { type ChatCall, variablesOf } from "./read-request.ts";
import type { Choice } from "./reply.ts";

export interface ChatBook {
  open(call: ChatCall, exchange: Exchange): Promise<OpenedCall>;
}

/** A call that is about to be sampled. */
export interface OpenedCall {
  session: PolicySession;
  prompt: Prompt;
  sampling: Sampling;
  seed: number;
  /** Whether log-probs under what is really drawn from are wanted too. */
  samplerLogprobs: boolean;
  /** Whether what is sampled will be trained on. */
  keepActivations: boolean;
  /** Told of every reply before its last byte leaves. */
  keep(reply: Choice, chain: ChainBuilder): void;
  /** Told what there was of replies that were broken off. */
  broken?(samples: readonly Sample[]): void;
  /** Told what to wait for, where nothing may be sampled any more. */
  drawing?(replies: Promise<unknown>): void;
}

/** The conversations of everybody who is served: found again by what was said, and forgotten in time. */
export const servedBook: ChatBook = {
  async open(call, { caller: { project }, signal }) {
    const { model, tools, sampling, seed, constraint, messages, request } = call;
    const options = { tools, sampling, seed, constraint, ...variablesOf(request) };
    const session = openSession(model.agent, options, model.chains.find(messages, project));
    const prompt = requireRoom(call, await session.prepare(messages, { seed, signal }));
    const keep: OpenedCall["keep"] = ({ turn }, chain) => model.chains.keep(messages, turn, chain, project);
    return { session, prompt, sampling, seed, samplerLogprobs: false, keepActivations: false, keep };
  },
};

/** Throws where the conversation leaves no room for a reply. */
export function requireRoom({ model }: ChatCall, prompt: Prompt | undefined): Prompt {
  if (prompt && prompt.room >= 1) return prompt;
  const asked = prompt ? `the messages and tools take ${prompt.tokens.length}` : "the messages take more";
  const { contextLength } = model.policy.model;
  throw new HttpError(400, `The context of this model is ${contextLength} tokens, and ${asked}.`, {
    code: "context_length_exceeded",
    param: "messages",
  });
}
