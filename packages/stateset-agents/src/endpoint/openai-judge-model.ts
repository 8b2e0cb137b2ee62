import { createHash } from "node:crypto";
import { z } from "zod";
import { messageOf, StatesetError } from "../error.ts";
import { endpointOf, pathBelow } from "../network.ts";
import { parseOptions } from "../options.ts";
import { entryFor } from "../safe-address.ts";
import { safeFetch } from "../safe-fetch.ts";
import { type JudgeModel, JudgeModelError, type JudgeReply, type JudgeRequest } from "./judge-model.ts";

export interface OpenAIJudgeModelOptions {
  /** The model's name at the endpoint. */
  model: string;
  /** Everything before `/chat/completions`. Default: env OPENAI_BASE_URL, else https://api.openai.com/v1 */
  baseURL?: string;
  /** Default: env OPENAI_API_KEY. Sent in the Authorization header and kept out of every message and log. */
  apiKey?: string;
  /** More headers for every request. */
  headers?: Record<string, string>;
  /**
   * More fields for the request body (`response_format`, `reasoning_effort`, …). They win over `temperature`, `seed` and `max_tokens`, and
   * undefined leaves one out: `{ max_tokens: undefined, max_completion_tokens: 512, temperature: undefined }` for a reasoning model.
   */
  extraBody?: Record<string, unknown>;
}

const schema = z.strictObject({
  model: z.string().min(1),
  baseURL: z.url({ protocol: /^https?$/ }).optional(),
  apiKey: z.string().min(1).optional(),
  headers: z.record(z.string(), z.string()).optional(),
  extraBody: z.record(z.string(), z.unknown()).optional(),
});

const replySchema = z.object({
  choices: z.array(z.object({ message: z.object({ content: z.string() }) })).min(1),
  usage: z.object({ prompt_tokens: z.number(), completion_tokens: z.number() }).nullish(),
});

/** Longer than any answer that was asked for. */
const maxBytes = 1 << 23;

/** A judge behind any OpenAI-compatible `/chat/completions` endpoint: a provider, vLLM, llama.cpp. */
export function openaiJudgeModel(options: OpenAIJudgeModelOptions): JudgeModel {
  const o = parseOptions(schema, options, "openaiJudgeModel()");
  const given = o.baseURL ?? process.env.OPENAI_BASE_URL ?? "https://api.openai.com/v1";
  if (!URL.canParse(given) || !/^https?:$/.test(new URL(given).protocol)) {
    throw new StatesetError("INVALID_OPTION", "OPENAI_BASE_URL is no address that begins with http:// or https://.");
  }
  const apiKey = o.apiKey ?? process.env.OPENAI_API_KEY;
  if (apiKey === undefined && /^https:\/\/api\.openai\.com\//.test(given)) {
    throw new StatesetError("INVALID_OPTION", "openaiJudgeModel() has no API key for https://api.openai.com.", {
      hint: "Pass apiKey, set OPENAI_API_KEY, or point baseURL at a server that needs none.",
    });
  }
  // A server may echo what it was sent in an error page; it must not reach a log through our messages.
  const { url, shown, headers, redact } = endpointOf(given, { ...o.headers, "api key": apiKey });
  // Wherever the operator put it, and nowhere else.
  const allow = [entryFor(url)];

  return {
    // What is asked for in another way must not be answered from the same cache entry.
    id: `${shown}#${o.model}${o.extraBody ? `+${fingerprint(o.extraBody)}` : ""}`,
    async complete(asked: JudgeRequest): Promise<JudgeReply> {
      let response: Response;
      let body: string;
      try {
        response = await safeFetch(
          pathBelow(url, "chat/completions"),
          {
            method: "POST",
            headers: {
              "content-type": "application/json",
              ...headers,
              ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}),
              ...o.headers,
            },
            body: JSON.stringify({
              temperature: asked.temperature,
              seed: asked.seed,
              max_tokens: asked.maxTokens,
              ...o.extraBody,
              model: o.model,
              messages: asked.messages,
            }),
            signal: asked.signal,
          },
          { allow, maxBytes },
        );
        body = await response.text();
      } catch (thrown) {
        if (asked.signal.aborted) throw thrown;
        throw new JudgeModelError("network", redact(`no connection to ${shown}: ${messageOf(thrown)}`), {
          cause: thrown,
        });
      }
      if (!response.ok) throw statusError(response, redact(body));
      const reply = replySchema.safeParse(parseJson(body));
      if (!reply.success) {
        throw new JudgeModelError(
          "malformed",
          `the endpoint did not answer in the chat format: ${brief(redact(body))}`,
        );
      }
      const { choices, usage } = reply.data;
      const text = choices[0]!.message.content;
      if (!usage) return { text };
      return { text, usage: { promptTokens: usage.prompt_tokens, completionTokens: usage.completion_tokens } };
    },
  };
}

function fingerprint(body: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(body, (_, value: unknown) => value ?? null);
  return createHash("sha256").update(text).digest("hex").slice(0, 8);
}

function statusError(response: Response, body: string): JudgeModelError {
  const message = `HTTP ${response.status}: ${brief(body)}`;
  const retryAfterMs = readRetryAfter(response.headers.get("retry-after"));
  if (response.status === 429) return new JudgeModelError("rate-limit", message, { retryAfterMs });
  if (response.status >= 500 || response.status === 408)
    return new JudgeModelError("server", message, { retryAfterMs });
  return new JudgeModelError("rejected", message);
}

/** Seconds, or an HTTP date. */
function readRetryAfter(header: string | null): number | undefined {
  if (!header) return undefined;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, date - Date.now());
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function brief(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > 200 ? `${line.slice(0, 200)}…` : line || "(empty body)";
}
