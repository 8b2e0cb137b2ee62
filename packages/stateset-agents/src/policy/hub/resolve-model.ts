import { stat } from "node:fs/promises";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { HubApiError } from "@huggingface/hub";
import { StatesetError } from "../../error.ts";
import { beginsAsGguf, ggufOfFolder, isGgufFile, isGgufName } from "../gguf/find-gguf.ts";
import { stubMarkFile } from "../stub/mark.ts";
import { exists } from "../what-lies-at.ts";
import type { DownloadProgress } from "./download-file.ts";
import { fetchModel } from "./fetch-model.ts";
import { defaultCacheDir, findSnapshot } from "./hub-cache.ts";

export type { DownloadProgress } from "./download-file.ts";

export interface ResolveOptions {
  /** A branch, tag or commit on the hub. Default "main". */
  revision?: string | undefined;
  /** For private and gated models. Default: the environment variable HF_TOKEN. Never logged. */
  token?: string | undefined;
  /** Use only what is already on this machine. Default: the environment variable HF_HUB_OFFLINE. */
  offline?: boolean | undefined;
  /** Where downloads are kept. Default: where Hugging Face's own tools keep them, so that they are shared. */
  cacheDir?: string | undefined;
  onProgress?: ((progress: DownloadProgress) => void) | undefined;
}

/**
 * Finds a model's folder: a local path as it is, a hub id in the cache or after downloading it. Of a GGUF file, and of a folder that holds
 * one and no other weights, `dir` is the file itself.
 */
export async function resolveModel(
  model: string,
  options: ResolveOptions = {},
): Promise<{ dir: string; name: string }> {
  const path = model === "~" || model.startsWith("~/") ? join(homedir(), model.slice(1)) : model;
  const kind = await stat(path).catch(() => undefined);
  if (kind?.isDirectory()) {
    if (await exists(join(path, stubMarkFile))) {
      throw new StatesetError("MODEL_NOT_FOUND", `${model} holds no model: a dry run with a stub wrote it.`, {
        hint: "Train with a real model.",
      });
    }
    return { dir: (await ggufOfFolder(resolve(path))) ?? resolve(path), name: model };
  }
  if (await isGgufFile(path)) return { dir: resolve(path), name: model };
  if (kind) {
    throw new StatesetError("MODEL_NOT_FOUND", `${model} is a file that does not end in .gguf, and no model folder.`, {
      hint: (await beginsAsGguf(path))
        ? `It is one by its content, though: give it a name that ends in .gguf, or a link: ln -s ${resolve(path)} model.gguf`
        : "Name the folder that holds config.json, or a file that ends in .gguf.",
    });
  }
  if (isGgufName(model)) {
    throw new StatesetError("MODEL_NOT_FOUND", `There is no file at ${model}.`, {
      hint: "GGUF files are not downloaded from the hub: fetch it yourself and give its path.",
    });
  }
  if (!isHubId(model)) {
    throw new StatesetError("MODEL_NOT_FOUND", `There is no model folder at ${model}.`, {
      hint: "A model is a folder with config.json, model.safetensors and tokenizer.json, a .gguf file, or a hub id such as Qwen/Qwen3-0.6B.",
    });
  }
  return { dir: await resolveHubId(model, options), name: model };
}

async function resolveHubId(id: string, options: ResolveOptions): Promise<string> {
  const { revision = "main", cacheDir = defaultCacheDir(), onProgress } = options;
  if (!/^[\w][\w./-]*$/.test(revision) || revision.includes("..")) {
    throw new StatesetError("INVALID_OPTION", `"${revision}" is no branch, tag or commit.`);
  }
  const cached = await findSnapshot(cacheDir, id, revision);
  if (options.offline ?? isOn(process.env.HF_HUB_OFFLINE)) {
    if (cached) return cached;
    throw new StatesetError(
      "HUB_UNAVAILABLE",
      `${id} (${revision}) is not complete in ${cacheDir}, and offline mode is on.`,
      {
        hint: "Load it once with a connection, or turn offline mode (offline, HF_HUB_OFFLINE) off.",
      },
    );
  }
  // A commit never changes: when it is here, there is nothing to ask.
  if (cached && /^[0-9a-f]{40}$/.test(revision)) return cached;
  try {
    return await fetchModel(id, { revision, cacheDir, token: options.token ?? process.env.HF_TOKEN, onProgress });
  } catch (error) {
    const unreachable = StatesetError.isInstance(error) && error.code === "HUB_UNAVAILABLE" && !wasRefused(error);
    if (!cached || !unreachable) throw error;
    process.emitWarning(`${error.message} Using the copy of ${id} that was downloaded earlier.`);
    return cached;
  }
}

/** Access was denied: a copy made when it was still allowed is no substitute. */
function wasRefused({ cause }: StatesetError): boolean {
  return cause instanceof HubApiError && (cause.statusCode === 401 || cause.statusCode === 403);
}

/** `name` or `owner/name`, as the hub allows them. */
function isHubId(text: string): boolean {
  return /^(?:[A-Za-z0-9][\w.-]*\/)?[A-Za-z0-9][\w.-]*$/.test(text) && !text.includes("..") && !text.includes("--");
}

function isOn(value: string | undefined): boolean {
  return ["1", "true", "yes", "on"].includes((value ?? "").toLowerCase());
}
