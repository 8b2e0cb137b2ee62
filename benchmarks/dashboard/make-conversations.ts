/** Conversations with the numbers of every token, as a run with `trajectories.every` writes them; what is said is nobody's. */
import { starterModelPath } from "@stateset-agents/starter-model";
import { loadChatTokenizer } from "../../packages/stateset-agents/src/policy/tokenizer/index.ts";
import { createRandom, type Random } from "../../packages/stateset-agents/src/random.ts";
import { type RecordedConversation, writeTrajectories } from "../../packages/stateset-agents/src/run/trajectories.ts";

export const groupSize = 8;
export const groups = 4;
const promptTokens = 40;
const replyTokens = 160;

const words =
  "I am sorry to hear that your order has not come yet and will look into it now . Please tell me the number of the order , " +
  "the day on which you placed it and where it should go , so that I can ask the carrier what became of the parcel . If it is lost " +
  "we send another one today or give you the money back , whichever you like better . Thank you for waiting so long ; is there " +
  "anything else that I can do for you ?";

interface Text {
  ids: Int32Array;
  text: string;
}

/** A step every ten, of one round of groups each; the long one is of the last step. */
export async function makeConversations(
  dir: string,
  { count, longTokens, lastStep }: { count: number; longTokens: number; lastStep: number },
): Promise<void> {
  const random = createRandom(1);
  const tokenizer = await loadChatTokenizer(starterModelPath);
  const pool = words.split(" ");
  const ids = new Map(pool.map((word) => [word, tokenizer.encode(` ${word}`)] as const));
  const say = (length: number): Text => {
    const said: number[] = [];
    while (said.length < length) said.push(...ids.get(pool[Math.floor(random.next() * pool.length)]!)!);
    const cut = Int32Array.from(said.slice(0, length));
    return { ids: cut, text: tokenizer.decode(cut) };
  };
  const perStep = groups * groupSize;
  for (let made = 0, step = 1; made < count; step += 10) {
    const own = Math.min(perStep, count - made);
    const conversations = Array.from({ length: own }, (_, i) =>
      conversation(step, i, say(promptTokens), say(replyTokens), random),
    );
    writeTrajectories(dir, step, conversations, { tokens: true });
    made += own;
  }
  const long = conversation(lastStep, 0, say(promptTokens), say(longTokens - promptTokens), random);
  writeTrajectories(dir, lastStep, [long], { tokens: true });
}

function conversation(step: number, index: number, prompt: Text, reply: Text, random: Random): RecordedConversation {
  const given = prompt.ids.length;
  const length = given + reply.ids.length;
  const group = `s${step}-g${Math.floor(index / groupSize)}`;
  const score = random.next();
  const drawn = (centre: number) =>
    Float32Array.from({ length: length - given }, () => centre + 0.2 * (random.next() - 0.5));
  return {
    record: {
      id: `${group}-m${index % groupSize}`,
      group,
      scenarioId: `scenario-${index % 12}`,
      step,
      messages: [
        { role: "user", content: prompt.text },
        { role: "assistant", content: reply.text },
      ],
      reward: { score, breakdown: { politeness: score, conciseness: 1 - score } },
      ended: "done",
      temperature: 1,
      chains: [{ length, learnLength: length - given }],
    },
    chains: [
      {
        tokens: Int32Array.from([...prompt.ids, ...reply.ids]),
        learn: Uint8Array.from({ length }, (_, i) => (i < given ? 0 : 1)),
        logprobs: Float32Array.from({ length }, (_, i) => (i < given ? 0 : -random.next())),
        turn: Int32Array.from({ length }, (_, i) => (i < given ? -1 : 1)),
      },
    ],
    learnt: { advantage: drawn(score - 0.5), ratio: drawn(1), entropy: drawn(0.5) },
  };
}
