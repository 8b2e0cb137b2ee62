/**
 * Encodes signed text with a tokenizer that knows no control token by its spelling. The sign of each one is replaced by a
 * stand-in that no text can hold either, the whole is encoded in one go (so that spaces and words around the tokens are cut as
 * ever), and the stand-ins' ids are replaced by the real ones.
 */
import { Tokenizer } from "@huggingface/tokenizers";
import type { AddedToken } from "./added-tokens.ts";
import { createSigner, splitAtSigns } from "./control-tokens.ts";
import type { JsonObject } from "./model-json.ts";
import type { TracedText } from "./traced-text.ts";
import { withoutPieces } from "./without-pieces.ts";

/** What a token does to the text around it; tokens that do the same share a stand-in. */
interface StandIn {
  id: number;
  content: string;
  lstrip: boolean;
  rstrip: boolean;
  normalized: boolean;
  special: true;
}

type Spelt = { id: number; text: string; standIn: StandIn };

export interface SignedEncoder {
  sign(text: TracedText): string;
  encode(signed: string): number[];
}

export function createSignedEncoder(
  tokenizerJson: JsonObject,
  config: JsonObject,
  { control, text: textTokens }: { control: readonly AddedToken[]; text: readonly AddedToken[] },
  vocabSize: number,
): SignedEncoder {
  const standIns: StandIn[] = [];
  const spelt = control.map((token): Spelt => {
    const { id, content: text, special = false, lstrip = false, rstrip = false } = token;
    const normalized = (token.normalized ?? !special) && tokenizerJson.normalizer !== null;
    let standIn = standIns.find(
      (other) => other.lstrip === lstrip && other.rstrip === rstrip && other.normalized === normalized,
    );
    if (!standIn) {
      const content = `\uDC00${String.fromCharCode(0xdc01 + standIns.length)}`;
      standIn = { id: vocabSize + standIns.length, content, lstrip, rstrip, normalized, special: true };
      standIns.push(standIn);
    }
    return { id, text, standIn };
  });
  const { fallbackIds, ...reduced } = withoutPieces(tokenizerJson.model, config, control);
  const known = { added_tokens: [...textTokens, ...standIns], model: reduced.model };
  const tokenizer = new Tokenizer({ ...tokenizerJson, ...known }, reduced.config);
  const encode = (text: string) => tokenizer.encode(text, { add_special_tokens: false }).ids;

  const byId = new Map(spelt.map((token) => [token.id, token]));
  const standInIds = new Set(standIns.map(({ id }) => id));
  const controlIds = new Set(control.map(({ id }) => id).filter((id) => !fallbackIds.has(id)));
  const isLate = ({ standIn }: Spelt) => standIn.normalized;
  return {
    // Tokenizers look for the others in what these leave, once it is normalised.
    sign: createSigner(
      spelt.filter((token) => !isLate(token)),
      spelt.filter(isLate),
    ),
    encode(signed) {
      const made: number[] = [];
      let text = "";
      let section = "";
      for (const part of splitAtSigns(signed)) {
        const token = typeof part === "number" ? byId.get(part)! : undefined;
        if (!token) section += part;
        // Normalised text may hold the token otherwise than it was spelt (with a space put before it), or not at all.
        else if (isLate(token) && encode(section + token.standIn.content).at(-1) !== token.standIn.id)
          section += token.text;
        else {
          made.push(token.id);
          section += token.standIn.content;
          if (isLate(token)) continue;
          text += section;
          section = "";
        }
      }
      let next = 0;
      return encode(text + section).map((id) => {
        if (standInIds.has(id)) return made[next++]!;
        // Cannot happen with what is known of tokenizers; if it ever does, better no prompt than a forged one.
        if (controlIds.has(id)) throw new Error(`plain text came out as the control token ${id}`);
        return id;
      });
    },
  };
}
