/**
 * Encodes marked text with a tokenizer that knows no control token by its spelling. Each one that the template spelt is replaced
 * by a stand-in that no text can hold, the whole is encoded in one go (so that spaces and words around the tokens are cut as
 * ever), and the stand-ins' ids are replaced by the real ones.
 */
import { Tokenizer } from "@huggingface/tokenizers";
import type { AddedToken } from "./added-tokens.ts";
import { createSplitter } from "./control-tokens.ts";
import { unmark } from "./marks.ts";
import type { JsonObject } from "./model-json.ts";
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

/** The text must be well-formed: stand-ins are halves of characters. */
export function createMarkedEncoder(
  tokenizerJson: JsonObject,
  config: JsonObject,
  { control, text: textTokens }: { control: readonly AddedToken[]; text: readonly AddedToken[] },
  vocabSize: number,
): (marked: string) => number[] {
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

  const splitRaw = createSplitter(spelt.filter(({ standIn }) => !standIn.normalized));
  const late = spelt.filter(({ standIn }) => standIn.normalized);
  const splitLate = late.length > 0 ? createSplitter(late) : (marked: string) => [marked];
  const standInIds = new Set(standIns.map(({ id }) => id));
  const controlIds = new Set(control.map(({ id }) => id).filter((id) => !fallbackIds.has(id)));

  return (marked) => {
    const made: number[] = [];
    let text = "";
    for (const part of splitRaw(marked)) {
      if (typeof part !== "string") {
        made.push(part.id);
        text += part.standIn.content;
        continue;
      }
      let section = "";
      for (const piece of splitLate(part)) {
        if (typeof piece === "string") section += unmark(piece);
        // Normalised text may hold the token otherwise than it was spelt (with a space put before it), or not at all.
        else if (encode(section + piece.standIn.content).at(-1) !== piece.standIn.id) section += piece.text;
        else {
          made.push(piece.id);
          section += piece.standIn.content;
        }
      }
      text += section;
    }
    let next = 0;
    return encode(text).map((id) => {
      if (standInIds.has(id)) return made[next++]!;
      // Cannot happen with what is known of tokenizers; if it ever does, better no prompt than a forged one.
      if (controlIds.has(id)) throw new Error(`plain text came out as the control token ${id}`);
      return id;
    });
  };
}
