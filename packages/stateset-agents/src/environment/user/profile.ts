/** Who a simulated user is. */
import { z } from "zod";
import { parseOptions } from "../../options.ts";
import type { Scenario } from "../scenario.ts";

/** Something the user knows and says only when asked. */
export interface UserFact {
  /** Words by which a question asks for it: "order number". */
  asked: readonly string[];
  /** What the user answers. */
  says: string;
}

export interface UserProfile {
  /** What the user wants, in the user's own words: said first. Default: the scenario's goal. */
  goal?: string | undefined;
  facts?: readonly UserFact[] | undefined;
  /** What it wants next, one thing after the other, each once the one before is settled. */
  next?: readonly string[] | undefined;
  /** Replies that neither ask for a fact nor end the matter that the user puts up with. Default 3. */
  patience?: number | undefined;
  /** How it talks. Default "plain". */
  style?: UserStyle | undefined;
  /** The share of words of four letters or more that have two letters swapped; never what holds a digit. Default 0. */
  typos?: number | undefined;
  /** What the user says to "shall I?" and "is that right?". Default "Yes, please." */
  agrees?: string | undefined;
}

export const userStyles = ["plain", "polite", "terse", "angry"] as const;
export type UserStyle = (typeof userStyles)[number];

const text = z.string().refine((said) => said.trim() !== "", "an empty text");
export const profileSchema = z.strictObject({
  goal: text.optional(),
  facts: z.array(z.strictObject({ asked: z.array(text).min(1), says: text })).default([]),
  next: z.array(text).default([]),
  patience: z.int().min(0).default(3),
  style: z.enum(userStyles).default("plain"),
  typos: z.number().min(0).max(1).default(0),
  agrees: text.default("Yes, please."),
});

export type Read<P> = Omit<P, "goal"> & { goal: string };
export type ReadProfile = Read<z.output<typeof profileSchema>>;

export type ProfileOption<P = UserProfile> = P | ((scenario: Scenario) => P);

/** Checked at once where it is the same for all. */
export function profileReader<P extends { goal?: string | undefined }>(
  schema: z.ZodType<P>,
  option: ProfileOption<object> | undefined,
  where: string,
): (scenario: Scenario) => Read<P> {
  const read = (profile: object) => parseOptions(schema, profile, where);
  const fixed = typeof option === "function" ? undefined : read(option === undefined ? {} : option);
  return (scenario) => {
    const profile = fixed ?? read((option as (scenario: Scenario) => object)(scenario));
    return { ...profile, goal: profile.goal ?? scenario.goal ?? "" };
  };
}
