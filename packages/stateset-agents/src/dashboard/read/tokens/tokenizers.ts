/** The tokenizer of a run, for what its token ids spell. Weights are never read, and nothing is downloaded. */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import { messageOf } from "../../../error.ts";
import { tokenizerSource } from "../../../policy/gguf/find-gguf.ts";
import { defaultCacheDir, findSnapshot } from "../../../policy/hub/hub-cache.ts";
import { type LoadedTokenizer, loadChatTokenizer } from "../../../policy/tokenizer/index.ts";
import { Recent } from "../../../recent.ts";
import { checkpointsOf } from "../../../run/checkpoint/store.ts";
import { pathIn } from "../../../run/layout.ts";
import type { Piece } from "../../api/index.ts";
import { stringAt } from "../json-file.ts";

export interface Spelling {
  /** Where it came from. */
  from: string;
  piece(id: number): Piece;
  /** What tokens spell one after the other. */
  text(tokens: Int32Array): string;
}

export type Found = { spelling: Spelling; why: null } | { spelling: null; why: string };

const kept = 4;

export class Tokenizers {
  /** By what their files hold: the runs of one model have a copy each. */
  readonly #loaded = new Recent<Promise<Omit<Spelling, "from">>>(kept);

  async of(dir: string, config: unknown): Promise<Found> {
    const tried: string[] = [];
    for (const place of await placesOf(dir, config)) {
      try {
        return { spelling: await this.#load(place), why: null };
      } catch (error) {
        tried.push(`${place}: ${messageOf(error)}`);
      }
    }
    const model = stringAt(config, "model", "name") ?? "unknown";
    const why =
      tried.length > 0
        ? `No tokenizer could be read. ${tried.join(" ")}`
        : `No tokenizer of the model ${model} was found: the run has no final/ folder yet, and the model is not on this machine.`;
    return { spelling: null, why };
  }

  async #load(place: string): Promise<Spelling> {
    const key = contentOf(place);
    const loading = this.#loaded.get(key) ?? load(place);
    this.#loaded.set(key, loading);
    // One that could not be read may be there the next time.
    loading.catch(() => this.#loaded.delete(key));
    return { ...(await loading), from: place };
  }
}

/** What the run left goes first: it is what it learnt with, also where the model has changed since. */
async function placesOf(dir: string, config: unknown): Promise<string[]> {
  const name = stringAt(config, "model", "name");
  const checkpoint = newestCheckpoint(dir);
  const places = [pathIn(dir, "final"), ...(checkpoint === undefined ? [] : [join(checkpoint, "policy")])];
  if (name !== null) {
    if (existsSync(name)) places.push(name);
    else if (isStarter(name)) places.push((await import("@stateset-agents/starter-model")).starterModelPath);
    else if (!isAbsolute(name) && /^[\w.-]+\/[\w.-]+$/.test(name)) {
      const snapshot = await findSnapshot(defaultCacheDir(), name, "main").catch(() => undefined);
      if (snapshot !== undefined) places.push(snapshot);
    }
  }
  return places.filter(
    (place) => existsSync(join(place, "tokenizer.json")) || /\.gguf$/i.test(place) || place === name,
  );
}

/** A run that was made elsewhere names the bundled model by where it lay there. */
function isStarter(name: string): boolean {
  return basename(name) === "model" && basename(dirname(name)) === "starter-model";
}

function newestCheckpoint(dir: string): string | undefined {
  try {
    return checkpointsOf(dir).all.at(-1);
  } catch {
    return undefined;
  }
}

function contentOf(place: string): string {
  const hash = createHash("sha1");
  for (const name of ["tokenizer.json", "tokenizer_config.json"]) {
    const path = join(place, name);
    if (!existsSync(path)) return place;
    hash.update(readFileSync(path));
  }
  return hash.digest("hex");
}

async function load(place: string): Promise<Omit<Spelling, "from">> {
  const tokenizer = await loadChatTokenizer(await tokenizerSource(place));
  return spellingOf(tokenizer);
}

function spellingOf(tokenizer: LoadedTokenizer): Omit<Spelling, "from"> {
  const known = tokenizer.tokenBytes();
  const decode = (ids: readonly number[]) => tokenizer.decode(Int32Array.from(ids), { skipSpecial: false });
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const piece = (id: number): Piece => {
    const special = known?.control.has(id) ? { special: true as const } : {};
    const bytes = known?.bytes[id];
    if (!bytes) return { id, text: id >= 0 && id < tokenizer.vocabSize ? decode([id]) : "", ...special };
    try {
      return { id, text: strict.decode(bytes), ...special };
    } catch {
      return { id, bytes: [...bytes], ...special };
    }
  };
  return {
    piece,
    text(tokens) {
      if (!known) return decode([...tokens]);
      return Buffer.concat(Array.from(tokens, (id) => known.bytes[id] ?? new Uint8Array(0))).toString("utf8");
    },
  };
}
