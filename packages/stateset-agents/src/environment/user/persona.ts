/**
 * A user without a model: it wants something, knows some facts, and has only so much patience. It listens to questions alone, so that
 * what it says cannot be talked into anything:
 *   a question for a fact      → says it (a fact it has told already: again, which costs patience)
 *   "shall I?", "is that right?" → agrees, which costs patience from the second time on
 *   another question, or nothing → says that it cannot tell, which costs patience
 *   a statement, "anything else?" → has got its answer: says what it wants next, or hangs up
 */
import { fingerprint } from "../../describe.ts";
import { createRandom, type Random } from "../../random.ts";
import { mentions } from "../mentions.ts";
import { type ProfileOption, profileReader, profileSchema, type ReadProfile, type UserStyle } from "./profile.ts";
import type { User } from "./user.ts";

export function personaUser(profile: ProfileOption = {}): User & { describe(): Record<string, unknown> } {
  const of = profileReader(profileSchema, profile, "personaUser()");
  return {
    begin(scenario, { seed }) {
      const own = of(scenario);
      return own.goal === "" ? undefined : spoken(own.goal, own, createRandom(seed));
    },
    reply({ scenario, turns }, { seed }) {
      const own = of(scenario);
      const answers = answersTo(turns, own);
      const last = answers.at(-1);
      if (last === undefined || answers.filter(({ costs }) => costs).length > own.patience) return undefined;
      return last.says === undefined ? undefined : spoken(last.says, own, createRandom(seed));
    },
    describe: () => ({ kind: "persona", profile: fingerprint(profile) }),
  };
}

interface PersonaAnswer {
  /** Undefined: it hangs up. */
  says: string | undefined;
  /** Whether it costs patience. */
  costs: boolean;
}

/** What the user makes of each thing the agent said: the last is the one to answer. */
function answersTo(
  turns: readonly { role: string; content: string; given?: boolean }[],
  { facts, agrees, goal, next }: ReadProfile,
): PersonaAnswer[] {
  const told = new Set<string>();
  let agreed = false;
  let settled = 0;
  const settle = (): PersonaAnswer => ({ says: next[settled++], costs: false });
  return turns
    .filter(({ role, given }) => role === "assistant" && !given)
    .map(({ content }): PersonaAnswer => {
      const asks = isQuestion(content);
      const asked = asks ? facts.filter((fact) => fact.asked.some((words) => mentions(content, words))) : [];
      const fresh = asked.filter(({ says }) => !told.has(says));
      if (fresh.length > 0 || (asked.length > 0 && !confirms.test(content))) {
        const given = fresh.length > 0 ? fresh : asked;
        for (const { says } of given) told.add(says);
        return { says: given.map(({ says }) => says).join(" "), costs: fresh.length === 0 };
      }
      if (goodbye.test(content)) return settle();
      if (asks && confirms.test(content)) {
        const costs = agreed;
        agreed = true;
        return { says: agrees, costs };
      }
      if (content.trim() === "") return { says: `Hello? ${goal}`.trim(), costs: true };
      if (asks) return { says: "I cannot tell you that.", costs: true };
      return settle();
    });
}

const requests =
  /\b(please (tell|give|provide|share|send|confirm|let)|i (will |would )?need (your|the)|let me know|confirming)\b/i;
const confirms =
  /\b(confirm\w*|correct|right|ok|okay|shall i|should i|is that|sound good|(do|would) you (want|like)|(how|what) about)\b/i;
const goodbye = /\b(anything|something) else\b/i;

function isQuestion(text: string): boolean {
  return text.includes("?") || requests.test(text);
}

const manners: Record<UserStyle, { before: readonly string[]; after: readonly string[] }> = {
  plain: { before: [""], after: [""] },
  polite: {
    before: ["Hello! ", "Good day. ", "Excuse me. "],
    after: [" Thank you.", " Thanks a lot.", " Many thanks."],
  },
  terse: { before: [""], after: [""] },
  angry: {
    before: ["This is ridiculous. ", "I am fed up. ", "Listen. "],
    after: [" Now.", " Hurry up.", " I mean it."],
  },
};

function spoken(text: string, { style, typos }: ReadProfile, random: Random): string {
  const { before, after } = manners[style];
  const pick = (from: readonly string[]) => from[random.below(from.length)]!;
  const short = style === "terse" ? text.replace(/\b(please|thank you|thanks)\b[,.!]?\s*/gi, "").trim() || text : text;
  const whole = `${pick(before)}${short}${pick(after)}`;
  if (typos === 0) return whole;
  return whole.replace(/\S+/g, (word) => (random.next() < typos ? mistyped(word, random) : word));
}

/** Two neighbours swapped, not the first. What holds a digit is an id, a date or an amount, and stays. */
function mistyped(word: string, random: Random): string {
  if (!/^\p{L}{4,}/u.test(word) || /\d/.test(word)) return word;
  const letters = /^\p{L}+/u.exec(word)![0].length;
  const at = 1 + random.below(letters - 2);
  return word.slice(0, at) + word[at + 1]! + word[at]! + word.slice(at + 2);
}
