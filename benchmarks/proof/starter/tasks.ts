/**
 * Three tasks of short support talk on the starter model, checked by code. Training and held-out scenarios are different sentences;
 * a reply has at most 24 tokens. What is paid lies between 0 and 1.
 */
import {
  type ConversationScenarioInput,
  type RewardFunction,
  type RewardInput,
  rewardFunction,
  type Scenario,
} from "stateset-agents";

export interface StarterTask {
  /** For the page. */
  title: string;
  maxTurns: number;
  training: readonly ConversationScenarioInput[];
  heldOut: readonly ConversationScenarioInput[];
  /** What each reply of a finished conversation earned; their sum is its score, paid at the end. */
  points(replies: readonly string[], scenario: Scenario | undefined): number[];
}

export const maxTokens = 24;
const words = (text: string) => text.match(/\S+/g)?.length ?? 0;
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const asks = (text: string) => /\?\s*$/.test(text);

/** Every sentence with every thing: `{}` stands for it. */
function filled(sentences: readonly string[], things: readonly string[], prefix: string): ConversationScenarioInput[] {
  return things.flatMap((thing) =>
    sentences.map((sentence, i) => ({
      id: `${prefix}-${thing.replaceAll(" ", "-")}-${i + 1}`,
      userResponses: [sentence.replace("{}", thing)],
      expected: thing,
    })),
  );
}

const things = [
  "hotel",
  "restaurant",
  "taxi",
  "doctor",
  "flight",
  "movie",
  "song",
  "dentist",
  "house",
  "bus",
  "concert",
  "apartment",
];

/** Paid at once: one reply. Half for naming the thing that was asked for, half for a question of at most nine words. */
const echo: StarterTask = {
  title: "name what the customer asks for, in a question of at most nine words (one reply)",
  maxTurns: 1,
  training: filled(["I am looking for a {}.", "Can you find me a {}?"], things, "train"),
  heldOut: filled(
    ["I need a {}, please.", "Hello! Is there a nice {} around?", "We want a good {} for tonight."],
    things,
    "held-out",
  ),
  points: ([reply = ""], scenario) => [
    (reply.toLowerCase().includes(scenario?.expected ?? "?") ? 0.5 : 0) + (asks(reply) && words(reply) <= 9 ? 0.5 : 0),
  ],
};

/** Three turns of a support talk: trouble, a fact, a last word. */
function talks(
  troubles: readonly string[],
  facts: readonly string[],
  last: readonly string[],
  prefix: string,
): ConversationScenarioInput[] {
  return troubles.map((trouble, i) => ({
    id: `${prefix}-${i + 1}`,
    userResponses: [trouble, facts[i % facts.length]!, last[i % last.length]!],
  }));
}

/** Paid at the end of three turns, for the first two replies: each that asks something in at most ten words is half. */
const delayed: StarterTask = {
  title: "ask a question of at most ten words in each of the first two of three replies; paid at the end",
  maxTurns: 3,
  training: talks(
    [
      "My order is late.",
      "I was charged twice.",
      "I forgot my password.",
      "The lamp I got is broken.",
      "I want to cancel my subscription.",
      "I cannot log in.",
      "My bill is wrong.",
      "I want to return a jacket.",
      "The app keeps crashing.",
      "My package never arrived.",
      "I want to change my address.",
      "I got the wrong size.",
      "I need a receipt.",
      "My internet is down.",
      "The screen is black.",
      "I want to speak to a manager.",
    ],
    ["It is 48213.", "My name is Paul Young.", "Since yesterday.", "No, nothing else.", "I tried that."],
    ["When will I hear from you?", "Okay.", "Is that all?"],
    "train",
  ),
  heldOut: talks(
    [
      "Where is my order? It should be here.",
      "There are two payments on my card.",
      "The site does not take my password.",
      "The chair came with a crack in it.",
      "Please end my membership.",
      "It will not let me sign in.",
      "You asked for too much money this month.",
      "Can I send these shoes back?",
      "The app closes when I open it.",
      "Nothing came in the mail.",
      "I have moved to another town.",
      "These trousers are too small.",
      "I lost my invoice.",
      "The wifi stopped working.",
      "My phone does not turn on.",
      "I want to make a complaint.",
      "The parcel is stuck somewhere.",
      "I do not know this charge.",
      "My account is locked.",
      "The glass arrived in pieces.",
      "Stop my plan, please.",
      "The code you sent does not work.",
      "My refund is not there yet.",
      "This is not what I ordered.",
      "The program is very slow.",
      "The courier did not come.",
      "Please use my new email.",
      "One part is missing.",
      "I need proof of payment.",
      "My printer does not print.",
      "The picture on my TV is gone.",
      "Nobody answers my mails.",
    ],
    ["77102", "I am Sara Khan.", "It began on Monday.", "That is everything I know.", "I did that twice."],
    ["How long does it take?", "All right.", "And now?"],
    "held-out",
  ),
  points: (replies) => replies.map((reply, i) => (i < 2 && asks(reply) && words(reply) <= 10 ? 0.5 : 0)),
};

/** What each class of scenario wants. */
const kinds = {
  trouble: (reply: string) => /sorry|apolog|thank|please/i.test(reply),
  booking: (reply: string) => asks(reply) && words(reply) <= 7,
  facts: (reply: string) => /\d/.test(reply),
  goodbye: (reply: string) => !reply.includes("?") && /thank|welcome|bye|glad|great|nice|day/i.test(reply),
} as const;
export type Kind = keyof typeof kinds;

function ofKind(kind: Kind, sentences: readonly string[], prefix: string): ConversationScenarioInput[] {
  return sentences.map((sentence, i) => ({ id: `${prefix}-${kind}-${i + 1}`, topic: kind, userResponses: [sentence] }));
}

/** Four classes of scenarios, of which each wants another kind of reply. */
const classes: StarterTask = {
  title:
    "be courteous about trouble, ask briefly about a booking, give a number when asked for a fact, take leave without a question (one reply)",
  maxTurns: 1,
  training: [
    ...ofKind(
      "trouble",
      [
        "My order is late.",
        "I was charged twice.",
        "The lamp I got is broken.",
        "My bill is wrong.",
        "I'm really upset about this.",
        "My package never arrived.",
      ],
      "train",
    ),
    ...ofKind(
      "booking",
      [
        "I want to book a table for two.",
        "I need a taxi to the station.",
        "Find me a cheap hotel.",
        "Please book a doctor's appointment.",
        "I want to hear some music.",
        "I am looking for a flight.",
      ],
      "train",
    ),
    ...ofKind(
      "facts",
      [
        "Are you open on Sunday?",
        "What is the weather in Paris?",
        "How long does a refund take?",
        "How much is the ticket?",
        "When does the train leave?",
        "What is their phone number?",
      ],
      "train",
    ),
    ...ofKind(
      "goodbye",
      [
        "Thanks, that is all.",
        "Goodbye.",
        "That was helpful, thank you.",
        "No, I am fine now.",
        "Bye, have a nice day.",
        "Great, I have what I need.",
      ],
      "train",
    ),
  ],
  heldOut: [
    ...ofKind(
      "trouble",
      [
        "Nothing came in the mail.",
        "There are two payments on my card.",
        "The chair came with a crack in it.",
        "You asked for too much money.",
        "I am very unhappy with this.",
        "My order should have been here last week.",
        "This is not what I ordered.",
        "My refund is not there yet.",
        "The product I got is damaged.",
      ],
      "held-out",
    ),
    ...ofKind(
      "booking",
      [
        "We would like a table tonight.",
        "Get me a cab to the airport.",
        "I need a room for two nights.",
        "I have to see a dentist.",
        "Play me a song.",
        "I want to fly to Boston.",
        "Find me a movie to watch.",
        "I need a bus to Chicago.",
        "I am looking for an apartment.",
      ],
      "held-out",
    ),
    ...ofKind(
      "facts",
      [
        "What are your opening hours?",
        "Will it rain in London?",
        "When do I get my money back?",
        "What does it cost?",
        "When does the bus come?",
        "Can you give me their number?",
        "How far is it?",
        "How long is the flight?",
        "What time does it start?",
      ],
      "held-out",
    ),
    ...ofKind(
      "goodbye",
      [
        "That is everything, thanks.",
        "See you.",
        "You helped me a lot.",
        "No, nothing else.",
        "Okay, bye.",
        "Perfect, that is what I wanted.",
        "Thank you so much.",
        "I am done, thanks.",
        "Have a good evening.",
      ],
      "held-out",
    ),
  ],
  points: ([reply = ""], scenario) => [kinds[(scenario?.topic ?? "booking") as Kind](reply) ? 1 : 0],
};

export const tasks = { echo, delayed, classes } as const satisfies Record<string, StarterTask>;
export type TaskName = keyof typeof tasks;

/** The task's reward, paid at the end of the conversation; with sign −1 its negative. */
export function taskReward(task: StarterTask, sign: 1 | -1 = 1): RewardFunction {
  return rewardFunction({ name: "task" }, (conversation) => sign * sum(pointsOf(task, conversation)));
}

/** The same, each reply paid where it stands. */
export function turnReward(task: StarterTask, sign: 1 | -1 = 1): RewardFunction {
  return rewardFunction({ name: "task" }, (conversation) => {
    const points = pointsOf(task, conversation);
    const places = conversation.turns.flatMap(({ role }, i) => (role === "assistant" ? [i] : []));
    const turns = Object.fromEntries(places.map((place, i) => [place, sign * (points[i] ?? 0)]));
    return { score: sign * sum(points), turns, turnsInScore: true };
  });
}

function pointsOf(task: StarterTask, { turns, scenario }: RewardInput): number[] {
  const replies = turns.flatMap(({ role, content }) => (role === "assistant" ? [content] : []));
  return task.points(replies, scenario);
}
