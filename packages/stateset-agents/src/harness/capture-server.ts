/** A server on this machine alone, at which the agents of a harness find the policy that learns. Each attempt has an address and a key of its own. */
import type { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { appOf } from "../server/app.ts";
import { answerChat } from "../server/dialect/chat/chat.ts";
import { chatRequestSchema } from "../server/dialect/chat/schema.ts";
import { listModels, showModel } from "../server/dialect/models.ts";
import type { Exchange } from "../server/exchange.ts";
import { createHostGuard } from "../server/guard/host.ts";
import { HttpError } from "../server/http-error.ts";
import type { Caller, Keys } from "../server/key/caller.ts";
import { createToken, hashOf, idIn, matches } from "../server/key/token.ts";
import { ModelTable } from "../server/model-table.ts";
import { openPort } from "../server/open-port.ts";
import { readFields } from "../server/read-fields.ts";
import type { Route } from "../server/route.ts";
import { plainParts, type ServerParts } from "../server/serve-exchange.ts";
import { ServedModel } from "../server/served-model.ts";
import type { Attempt } from "./attempt.ts";
import { postedRewardSchema } from "./harness-reward.ts";
import { watchAnswers } from "./unread-answers.ts";

export interface CaptureServer {
  /** The model's name, as clients call it. */
  readonly model: string;
  /** From now on the attempt can be called at this address, with this key, until it is ended: then nothing of it is sampled or sent any more. */
  admit(attempt: Attempt): { baseURL: string; apiKey: string; end(): Promise<void> };
  close(): Promise<void>;
}

interface CallableAttempt {
  attempt: Attempt;
  path: string;
  hash: Buffer;
  caller: Caller;
}

/** Of a request's body: conversations of agents hold documents. */
const maxBytes = 32 << 20;
const host = "127.0.0.1";
const keptKeys = 4096;
/** For agents to take what their last calls were answered. */
const graceMs = 1000;
/** All agents call from this machine, and their tools may take a while between two calls. */
const connections = { connectionsPerAddress: 10_000, keepAliveTimeoutMs: 120_000 };

export async function openCaptureServer(agent: MultiTurnAgent): Promise<CaptureServer> {
  const model = await ServedModel.open({
    name: "policy",
    source: agent,
    maxWaiting: Number.MAX_SAFE_INTEGER,
    shared: false,
    // Long enough that no clock decides which calls are answered: a busy machine must not change what a run learns.
    constraintMs: 60_000,
  });
  const admitted = new Map<string, CallableAttempt>();
  /** Keys of attempts that are over, so that a call that comes too late is told so. */
  const ended = new Map<string, Buffer>();
  const ending = new AbortController();
  const parts: ServerParts = {
    // The attempt keeps what its calls failed with; others are refused before anything can fail.
    ...plainParts(ending.signal),
    ...{ models: new ModelTable([model]), keys: keysOf(admitted, ended) },
    guard: createHostGuard({ loopback: true, hosts: [host], origins: [] }),
  };
  const app = appOf(captureRoutes(admitted), parts);
  const { node, url } = await openPort(async (request) => app.fetch(request), { host, port: 0, connections });
  // A run that has ended need not wait for it.
  node.unref();
  const answers = watchAnswers(node);
  let rollouts = 0;
  return {
    model: model.name,
    admit(attempt) {
      const { id, token } = createToken();
      const path = `${rollouts++}/${attempt.number}`;
      const caller: Caller = { keyId: id, project: "harness", scopes: new Set(["infer"]), limits: {} };
      admitted.set(id, { attempt, path, hash: hashOf(token), caller });
      const end = async () => {
        ended.set(id, admitted.get(id)!.hash);
        if (ended.size > keptKeys) ended.delete(ended.keys().next().value!);
        admitted.delete(id);
        await attempt.close();
        await answers.end(`/r/${path}/`, graceMs);
      };
      return { baseURL: `${url}/r/${path}/v1`, apiKey: token, end };
    },
    async close() {
      ending.abort();
      node.closeAllConnections();
      node.close();
      await model.close();
    },
  };
}

const nobody = Buffer.alloc(32);

function keysOf(admitted: ReadonlyMap<string, CallableAttempt>, ended: ReadonlyMap<string, Buffer>): Keys {
  return {
    find(token) {
      const id = idIn(token) ?? "";
      const known = admitted.get(id);
      if (!matches(token, known?.hash ?? ended.get(id) ?? nobody)) return { kind: "unknown" };
      return known ? { kind: "ok", caller: known.caller } : { kind: "expired" };
    },
    close() {},
  };
}

const notResponses =
  'A harness is served /v1/chat/completions, not /v1/responses: call setOpenAIAPI("chat_completions") of the Agents SDK, or provider.chat(model) of the AI SDK.';

function captureRoutes(admitted: ReadonlyMap<string, CallableAttempt>): Route[] {
  /** A key opens the path it was made for; for all others there is none. */
  const attemptOf = ({ caller, params: { rollout, attempt } }: Exchange): Attempt => {
    const own = admitted.get(caller.keyId);
    if (own?.path !== `${rollout}/${attempt}`)
      throw new HttpError(404, "There is no such rollout.", { code: "unknown_rollout" });
    return own.attempt;
  };
  const path = "/r/:rollout/:attempt";
  const posts = { method: "POST", scope: "infer", maxBytes, limited: false } as const;
  const asks = { method: "GET", scope: "infer", maxBytes: 0, limited: false } as const;
  return [
    {
      ...{ ...posts, path: `${path}/v1/chat/completions`, body: chatRequestSchema, operation: "chat" },
      summary: "Go on with a conversation of the rollout.",
      answer(exchange) {
        const attempt = attemptOf(exchange);
        return attempt.serve(exchange, (own) => answerChat(own, attempt));
      },
    },
    {
      ...{ ...posts, path: `${path}/v1/responses`, maxBytes },
      summary: "What several SDKs call unless they are told otherwise.",
      answer() {
        throw new HttpError(404, notResponses, { code: "unknown_route", headers: { "x-should-retry": "false" } });
      },
    },
    {
      ...{ ...posts, path: `${path}/reward`, body: postedRewardSchema, maxBytes: 1 << 16 },
      summary: "What the rollout is worth.",
      answer(exchange) {
        const { ignored, body } = exchange;
        return attemptOf(exchange).post(readFields(postedRewardSchema, body, { ignored }));
      },
    },
    {
      ...{ ...asks, path: `${path}/v1/models`, summary: "The model under training." },
      answer(exchange) {
        attemptOf(exchange);
        return listModels(exchange);
      },
    },
    {
      ...{ ...asks, path: `${path}/v1/models/:model`, summary: "The same by its name." },
      answer(exchange) {
        attemptOf(exchange);
        return showModel(exchange);
      },
    },
  ];
}
