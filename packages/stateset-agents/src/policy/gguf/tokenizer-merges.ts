import { StatesetError } from "../../error.ts";
import { invalidModel, quoted } from "../weights/invalid-model.ts";
import type { MetadataReader } from "./gguf-metadata.ts";
import { checkLength, type Vocabulary } from "./tokenizer-vocabulary.ts";

/** SentencePiece makes pieces of at most 16 characters unless told otherwise. Trying all cuts of a longer one would take too long. */
const maxPieceLength = 256;

export const isBytePiece = (text: string): boolean => /^<0x[0-9A-F]{2}>$/.test(text);

/** The merges that the file lists, "left right" each, best first. */
export function listedMerges(reader: MetadataReader, { ids }: Pick<Vocabulary, "ids">): readonly string[] | undefined {
  const key = "tokenizer.ggml.merges";
  const merges = reader.texts(key);
  for (const [i, merge] of merges?.entries() ?? []) {
    // A space of a text is never one here: byte-level BPE spells it "Ġ", SentencePiece "▁".
    const [left, right, ...more] = merge.split(" ");
    const fail = (what: string) => invalidModel(reader.file, `${key}: entry ${i}, ${quoted(merge)}, ${what}`);
    if (!left || !right || more.length > 0) throw fail("is no pair of tokens");
    for (const part of [left, right, left + right]) {
      if (!ids.has(part)) throw fail(`names ${quoted(part)}, which is no token`);
    }
  }
  return merges;
}

/** The merges that SentencePiece's scores stand for: every way to make a piece of two others, the best score first. */
export function scoredMerges(reader: MetadataReader, vocabulary: Vocabulary): string[] {
  const key = "tokenizer.ggml.scores";
  const scores = reader.required(key, reader.numbers(key));
  checkLength(reader, key, scores.length, vocabulary.tokens.length);
  for (const [id, score] of scores.entries()) {
    if (!Number.isFinite(score)) throw invalidModel(reader.file, `${key} is ${score} for token ${id}`);
  }
  return mergesOf(vocabulary, scores, reader.file);
}

export function mergesOf(
  { tokens, kinds, ids }: Pick<Vocabulary, "tokens" | "kinds" | "ids">,
  scores: ArrayLike<number>,
  file: string,
): string[] {
  const isPiece = (id: number) => kinds[id] === "normal" && !isBytePiece(tokens[id]!);
  const made: { score: number; merges: string[] }[] = [];
  for (const [id, text] of tokens.entries()) {
    if (!isPiece(id) || text.includes(" ")) continue;
    const characters = [...text];
    if (characters.length > maxPieceLength) {
      throw invalidModel(file, `token ${id} has ${characters.length} characters; ${maxPieceLength} are allowed`);
    }
    const pairs: [number, number][] = [];
    let left = "";
    for (const character of characters.slice(0, -1)) {
      left += character;
      const [first, second] = [ids.get(left), ids.get(text.slice(left.length))];
      if (first !== undefined && second !== undefined && isPiece(first) && isPiece(second)) pairs.push([first, second]);
    }
    // As transformers orders the ways to make one piece.
    pairs.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const merges = pairs.map(([first, second]) => `${tokens[first]} ${tokens[second]}`);
    if (merges.length > 0) made.push({ score: scores[id]!, merges });
  }
  if (made.length > 1 && made.every(({ score }) => score === made[0]!.score)) {
    throw new StatesetError(
      "MODEL_UNSUPPORTED",
      `${file}: all its tokens have the same score (tokenizer.ggml.scores).`,
      {
        hint: "How it cuts text is lost. Put the tokenizer.json of the original model beside the file: it is then used instead.",
      },
    );
  }
  return made.sort((a, b) => b.score - a.score).flatMap(({ merges }) => merges);
}
