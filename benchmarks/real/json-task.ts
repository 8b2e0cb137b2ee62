/**
 * Customers' messages, to be answered with one JSON object that has the keys asked for. The values stand in the message, so code can check
 * all of it. Schemas, wordings and values are this benchmark's own. Parts: `training`; `tuning`, with which settings were chosen; `heldOut`:
 * the schemas of training with other wordings and other values; `newSchemas`: schemas that training never shows.
 */
import { createRandom, type Random, rewardFunction, seedOf } from "stateset-agents";
import type { RealScenario } from "./task.ts";

export type Part = "training" | "tuning" | "heldOut" | "newSchemas";

type FieldType = "string" | "integer" | "number" | "boolean";

interface Schema {
  keys: Readonly<Record<string, FieldType>>;
  /** By wording, the placeholders named as the keys; the last one is kept for tests. */
  messages: readonly string[];
}

const schemas: Record<"trained" | "unseen", Record<string, Schema>> = {
  trained: {
    late: {
      keys: { order_id: "string", item: "string", days_late: "integer" },
      messages: [
        "Hi, my {item} is {days_late} days late. The order is {order_id}.",
        "Order {order_id} was due {days_late} days ago and I still have no {item}.",
        "I'm waiting for a {item}, order {order_id}. It should have been here {days_late} days ago!",
        "Where is my {item}? I ordered it under {order_id} and it is overdue by {days_late} days now.",
      ],
    },
    refund: {
      keys: { name: "string", amount: "number", urgent: "boolean" },
      messages: [
        "This is {name}. You charged me {amount} dollars too much. {urgent}",
        "Please refund {amount} dollars. {urgent} My name is {name}.",
        "{urgent} I was billed {amount} dollars by mistake, signed {name}.",
        "My card shows a wrong charge of {amount} dollars. {urgent} Regards, {name}",
      ],
    },
    quote: {
      keys: { company: "string", seats: "integer", city: "string" },
      messages: [
        "We are {company} in {city} and need a quote for {seats} seats.",
        "Could you price {seats} seats for {company}? Our office is in {city}.",
        "{company} wants to buy {seats} seats. We are based in {city}.",
        "Our team at {company} in {city} is growing: what would {seats} seats cost?",
      ],
    },
    cancel: {
      keys: { name: "string", plan: "string" },
      messages: [
        "I want to cancel my {plan} plan. My name is {name}.",
        "{name} here, please end the {plan} plan.",
        "Please stop the {plan} plan of {name}.",
        "Hello, I no longer need the {plan} plan. It runs under the name {name}.",
      ],
    },
    order: {
      keys: { item: "string", quantity: "integer", gift: "boolean" },
      messages: [
        "I would like to order {quantity} of the {item}. {gift}",
        "{gift} Please send me {quantity} pieces, the {item}.",
        "Do you have the {item}? I'd take {quantity}. {gift}",
        "Add the {item} to my basket, {quantity} times. {gift}",
      ],
    },
  },
  unseen: {
    visit: {
      keys: { name: "string", city: "string", people: "integer" },
      messages: ["{name} here: {people} of us will visit your shop in {city}."],
    },
    upgrade: {
      keys: { company: "string", plan: "string", urgent: "boolean" },
      messages: ["Please move {company} to the {plan} plan. {urgent}"],
    },
    damaged: {
      keys: { item: "string", order_id: "string", price: "number" },
      messages: ["The {item} of order {order_id} came broken. It cost {price} dollars."],
    },
    address: {
      keys: { order_id: "string", city: "string" },
      messages: ["Please send order {order_id} to {city} instead."],
    },
  },
};

/** What a key may be, one list for training and tuning, another for tests. */
const words: Readonly<Record<string, readonly [readonly string[], readonly string[]]>> = {
  name: [
    ["Anna Miller", "Jonas Weber", "Priya Shah", "Tom Baker", "Lucia Rossi", "Omar Haddad", "Emily Clark", "Ken Sato"],
    ["Maria Lopez", "David Stone", "Ines Costa", "Peter Novak", "Grace Kim", "Adam Reed"],
  ],
  item: [
    ["desk lamp", "coffee maker", "blue jacket", "phone case", "office chair", "water bottle", "keyboard", "backpack"],
    ["toaster", "rain coat", "travel mug", "headset", "bookshelf", "yoga mat"],
  ],
  city: [
    ["Berlin", "Chicago", "Madrid", "Toronto", "Lagos", "Osaka", "Denver", "Leeds"],
    ["Boston", "Vienna", "Seoul", "Lima", "Dublin", "Austin"],
  ],
  company: [
    ["Acme Foods", "Northwind", "Blue Harbor", "Orbit Labs", "Greenfield", "Summit Bank"],
    ["Maple Works", "Red Fox Media", "Silverline", "Harbor Tools"],
  ],
  plan: [
    ["basic", "family", "premium", "student"],
    ["starter", "business", "annual"],
  ],
};

const sentences: Readonly<Record<string, readonly [string, string]>> = {
  urgent: ["It is urgent.", "It is not urgent."],
  gift: ["It is a gift.", "It is not a gift."],
};

/** Scenarios of a part, always the same ones, spread evenly over its schemas. */
export function jsonScenarios(part: Part, count: number): RealScenario[] {
  const own = Object.entries(schemas[part === "newSchemas" ? "unseen" : "trained"]);
  return Array.from({ length: count }, (_, i) => {
    const [name, schema] = own[i % own.length]!;
    return scenarioOf(part, `${name}-${i}`, schema, createRandom(seedOf("real-json", part, i)));
  });
}

function scenarioOf(part: Part, id: string, { keys, messages }: Schema, random: Random): RealScenario {
  const tested = part === "heldOut" || part === "newSchemas";
  const wordings = part === "heldOut" ? messages.slice(-1) : part === "newSchemas" ? messages : messages.slice(0, -1);
  const answer: Record<string, string | number | boolean> = {};
  let message = pick(wordings, random);
  for (const [key, type] of Object.entries(keys)) {
    const [value, text] = drawn(key, type, tested, random);
    answer[key] = value;
    message = message.replace(`{${key}}`, text);
  }
  const asked = Object.entries(keys).map(([key, type]) => `"${key}" (${type})`);
  const prompt = `Read the customer's message. Answer with one JSON object and nothing else. Its keys: ${asked.join(", ")}.\nMessage: ${message}`;
  return { id: `${part}-${id}`, userResponses: [prompt], metadata: { answer } };
}

function drawn(key: string, type: FieldType, tested: boolean, random: Random): [string | number | boolean, string] {
  const whole = (from: number, to: number) => from + Math.floor((to - from + 1) * random.next());
  if (type === "boolean") {
    const yes = random.next() < 0.5;
    return [yes, sentences[key]![yes ? 0 : 1]];
  }
  if (type === "integer") {
    // Even numbers are trained on, odd ones tested.
    const value = 2 * whole(1, 20) + (tested ? 1 : 0);
    return [value, String(value)];
  }
  if (type === "number") {
    const value = whole(5, 90) + (tested ? 0.25 : 0.5);
    return [value, value.toFixed(2)];
  }
  if (key === "order_id") {
    const id = `${tested ? "B" : "A"}${whole(1000, 9999)}`;
    return [id, id];
  }
  const text = pick(words[key]![tested ? 1 : 0], random);
  return [text, text];
}

function pick<T>(list: readonly T[], random: Random): T {
  return list[Math.floor(list.length * random.next())]!;
}

/**
 * From 0 to 1: 0.2 for an object, 0.2 for the keys (those it shares with what was asked, over all of both), 0.2 for their types, 0.4 for
 * their values. Half of that when other text stands around the object, as it does in a code block.
 */
export const jsonReward = rewardFunction({ name: "json" }, ({ turns, scenario }) => {
  const answer = (scenario as RealScenario).metadata.answer as Readonly<Record<string, unknown>>;
  return jsonScore(turns.at(-1)!.content, answer);
});

export function jsonScore(reply: string, answer: Readonly<Record<string, unknown>>): number {
  const whole = objectIn(reply);
  const said = whole ?? objectIn(/\{[^{}]*\}/.exec(reply)?.[0] ?? "");
  if (!said) return 0;
  const asked = Object.keys(answer);
  const all = new Set([...asked, ...Object.keys(said)]);
  const share = (right: (key: string) => boolean) => asked.filter(right).length / all.size;
  const score =
    0.2 +
    0.2 * share((key) => Object.hasOwn(said, key)) +
    0.2 * share((key) => typeof said[key] === typeof answer[key]) +
    0.4 * share((key) => said[key] === answer[key]);
  return whole ? score : score / 2;
}

function objectIn(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
