/** How tokens are shown, as the address has it. */
import { useMemo } from "preact/hooks";
import type { GroupData, TokensHead } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { askJson, askPacked } from "../../data/ask.ts";
import { useResource } from "../../data/resource.ts";
import { place, setQuery } from "../../data/url.ts";
import { firstOf, knownQuantities, type Quantity, reachOf } from "../../token/quantity.ts";
import { Spelling } from "../../token/spelling.ts";
import type { TokenLook } from "../../token/token-lines.tsx";
import { type Tokens, tokensOf } from "../../token/tokens.ts";

/** Members whose tokens are read for a scale of the whole group. */
const mostMembers = 32;

export interface Look extends TokenLook {
  known: readonly Quantity[];
  /** Messages alone, without their tokens. */
  text: boolean;
  /** The chains from their first token on, prompts included. */
  all: boolean;
  /** What the scale rests on, in words. */
  scaleOf: string;
}

export function loadTokens(key: string, signal: AbortSignal): Promise<Tokens> {
  const path = `trajectories/${encodeURIComponent(key)}/tokens`;
  return askPacked<TokensHead>(path, {}, signal).then(tokensOf);
}

export function useLook(tokens: Tokens | undefined, group: string | null): Look | undefined {
  const { colour, boundaries, special, all, scale } = place.value.query;
  const wide = scale === "group" && group !== null;
  const others = useResource(wide ? `tokens of ${group}` : "", (signal) =>
    wide ? groupTokens(group, signal) : nothing(),
  );
  const known = useMemo(() => (tokens ? knownQuantities(tokens) : []), [tokens]);
  const spelling = useMemo(() => tokens && new Spelling(tokens), [tokens]);
  const quantity = known.find(({ name }) => name === colour) ?? firstOf(known);
  const among = wide ? others.data : undefined;
  const reach = useMemo(() => tokens && quantity && reachOf(quantity, among ?? [tokens]), [tokens, quantity, among]);
  return useMemo(() => {
    if (!tokens || !spelling) return undefined;
    return {
      tokens,
      spelling,
      known,
      colour: quantity && reach && { quantity, reach },
      boundaries: boundaries === "1",
      special: special === undefined ? all === "1" : special === "1",
      all: all === "1",
      text: colour === "text" && all !== "1",
      scaleOf: among ? "this group's tokens that learn" : "this conversation's tokens that learn",
    };
  }, [tokens, spelling, known, quantity, reach, boundaries, special, all, colour, among]);
}

export function chooseColour(name: string): void {
  setQuery({ colour: name });
}

export interface ColourChoice {
  name: string;
  label: string;
  meaning: string;
  chosen: boolean;
}

/** What the tokens can be coloured by, tokens without colours where no number of them is known, and no tokens at all. */
export function colourChoices({ known, colour, text, all }: Look): ColourChoice[] {
  const plain = { name: "tokens", label: "Tokens", meaning: "No number was recorded of these tokens." };
  const none = { name: "text", label: "Text", meaning: "The messages, without their tokens." };
  const chosen = text ? "text" : (colour?.quantity.name ?? "tokens");
  return [...(known.length > 0 ? known : [plain]), ...(all ? [] : [none])].map(({ name, label, meaning }) => ({
    name,
    label,
    meaning,
    chosen: name === chosen,
  }));
}

export function nextColour(look: Look): void {
  const choices = colourChoices(look);
  const at = choices.findIndex(({ chosen }) => chosen);
  chooseColour(choices[(at + 1) % choices.length]!.name);
}

const nothing = () => Promise.resolve(undefined);

async function groupTokens(group: string, signal: AbortSignal): Promise<Tokens[]> {
  const { members } = await askJson<GroupData>(`groups/${encodeURIComponent(group)}`, {}, signal);
  const kept = members.filter(({ hasTokens }) => hasTokens).slice(0, mostMembers);
  return Promise.all(kept.map(({ key }) => loadTokens(key, signal)));
}
