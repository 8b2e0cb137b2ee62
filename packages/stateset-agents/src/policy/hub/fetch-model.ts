import { join } from "node:path";
import { HubApiError, type ListFileEntry, listFiles, modelInfo } from "@huggingface/hub";
import { messageOf, StatesetError } from "../../error.ts";
import { endpointOf, request } from "../../network.ts";
import { exists } from "../what-lies-at.ts";
import { type DownloadProgress, downloadToBlob, type HubFile } from "./download-file.ts";
import { blobPath, linkBlob, repoDir, writeRef } from "./hub-cache.ts";

export interface FetchOptions {
  revision: string;
  cacheDir: string;
  token: string | undefined;
  onProgress: ((progress: DownloadProgress) => void) | undefined;
}

/** Downloads what is needed of a model and is not here yet; returns the folder of the snapshot. */
export async function fetchModel(id: string, { revision, cacheDir, token, onProgress }: FetchOptions): Promise<string> {
  const { url: hubUrl, headers } = endpointOf(process.env.HF_ENDPOINT ?? "https://huggingface.co");
  const access = { hubUrl, fetch: createFetch(hubUrl, token ? { Authorization: `Bearer ${token}` } : headers) };
  const repo = repoDir(cacheDir, id);
  try {
    const { sha: commit } = await modelInfo({ name: id, revision, additionalFields: ["sha"], ...access });
    // It becomes part of paths; a commit is nothing but 40 hexadecimal digits.
    if (!/^[0-9a-f]{40}$/.test(commit))
      throw new StatesetError("HUB_UNAVAILABLE", `${hubUrl} named no commit for ${id}.`);
    const files = await neededFiles(listFiles({ repo: id, revision: commit, ...access }), id);
    const snapshot = join(repo, "snapshots", commit);
    const isHere = await Promise.all(files.map(({ hash }) => exists(blobPath(repo, hash))));
    const missing = files.filter((_, i) => !isHere[i]);
    const total = missing.reduce((sum, { size }) => sum + size, 0);
    let before = 0;
    for (const file of missing) {
      const report = (fileBytes: number) =>
        onProgress?.({ model: id, file: file.path, fileBytes, fileTotal: file.size, bytes: before + fileBytes, total });
      await downloadToBlob(file, { repo, id, commit, ...access, report });
      before += file.size;
    }
    for (const file of files) await linkBlob(blobPath(repo, file.hash), join(snapshot, file.path));
    // Last, so that a branch never points to a snapshot that is not complete.
    if (revision !== commit) writeRef(repo, revision, commit);
    return snapshot;
  } catch (error) {
    throw explain(error, id, revision, hubUrl, token !== undefined);
  }
}

/** Credentials go to the hub itself and nowhere else, also not where the hub redirects downloads to. */
function createFetch(hubUrl: string, credentials: Readonly<Record<string, string>>): typeof fetch {
  const { origin } = new URL(hubUrl);
  return (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const headers = new Headers(init?.headers);
    if (url.origin === origin) for (const [name, value] of Object.entries(credentials)) headers.set(name, value);
    return request(url, { ...init, headers });
  };
}

const wanted =
  /^(?:(?:generation_|tokenizer_|adapter_)?config|tokenizer|special_tokens_map|added_tokens|chat_template)\.json$|^chat_template\.jinja$|^adapter_model\.safetensors$/;

/** Configuration, tokenizer, and the weights in one of their forms: not the other formats a repository may also hold. */
async function neededFiles(listing: AsyncIterable<ListFileEntry>, id: string): Promise<HubFile[]> {
  const entries: HubFile[] = [];
  for await (const { type, path, size, oid, lfs } of listing) {
    if (type === "file") entries.push({ path, size: lfs?.size ?? size, hash: lfs?.oid ?? oid ?? "" });
  }
  const named = (pattern: RegExp) => entries.filter(({ path }) => pattern.test(path));
  const single = named(/^model\.safetensors$/);
  const weights = single.length > 0 ? single : named(/^model(?:-\d+-of-\d+\.safetensors|\.safetensors\.index\.json)$/);
  const others = named(wanted);
  const isAdapter = others.some(({ path }) => path === "adapter_model.safetensors");
  if (weights.length === 0 && !isAdapter) {
    const formats = [".bin", ".gguf", ".onnx", ".h5", ".msgpack"].filter((end) =>
      entries.some(({ path }) => path.endsWith(end)),
    );
    throw new StatesetError(
      "MODEL_UNSUPPORTED",
      `${id} has no safetensors weights${formats.length > 0 ? ` (only ${formats.join(", ")})` : ""}.`,
      {
        hint: "Choose a repository that has model.safetensors, or convert this one.",
      },
    );
  }
  for (const { path, hash } of [...others, ...weights]) {
    if (!/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(hash)) {
      throw new StatesetError("HUB_UNAVAILABLE", `The hub gave no usable checksum for ${id}/${path}.`);
    }
  }
  return [...others, ...weights];
}

function explain(error: unknown, id: string, revision: string, hubUrl: string, hasToken: boolean): StatesetError {
  if (StatesetError.isInstance(error)) return error;
  const cause = error;
  if (error instanceof HubApiError) {
    const { statusCode: status } = error;
    if (status === 404) {
      return new StatesetError("MODEL_NOT_FOUND", `${hubUrl} has no model ${id} with revision ${revision}.`, {
        hint: "Check the spelling; a local folder must be written as a path, such as ./model.",
        cause,
      });
    }
    if (status === 401 || status === 403) {
      return new StatesetError("HUB_UNAVAILABLE", `${hubUrl} refused access to ${id} (status ${status}).`, {
        hint: hasToken
          ? "The token may not read it: check the spelling, and accept the model's terms on its page."
          : "It does not exist, is private or gated. For the latter two, accept its terms and set HF_TOKEN.",
        cause,
      });
    }
    return new StatesetError("HUB_UNAVAILABLE", `${hubUrl} answered with status ${status} when asked for ${id}.`, {
      cause,
    });
  }
  if (isFileError(error)) {
    return new StatesetError("WRITE_FAILED", `${id} could not be saved: ${error.message}.`, {
      hint: "Check the free space and permissions of the cache folder, or choose another with cacheDir.",
      cause,
    });
  }
  const reason = error instanceof Error && error.cause ? messageOf(error.cause) : messageOf(error);
  return new StatesetError("HUB_UNAVAILABLE", `${hubUrl} could not be reached for ${id}: ${reason}.`, { cause });
}

function isFileError(error: unknown): error is NodeJS.ErrnoException {
  const code = (error as NodeJS.ErrnoException | null)?.code ?? "";
  return ["ENOSPC", "EACCES", "EPERM", "EROFS", "EDQUOT", "ENOTDIR", "EISDIR", "EMFILE"].includes(code);
}
