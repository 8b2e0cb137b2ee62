/** Replies the starter model samples itself, ranked by a reward that code checks: polite, and no longer than it must be. */
import { ConversationEnvironment, type ConversationScenario, RewardFunction, type RewardInput } from "stateset-agents";

export const systemPrompt = "You are a helpful customer support agent.";

const openers = [
  "Hi, my order is two weeks late and I want a refund.",
  "Where is my package? It should have been here on Monday.",
  "I was charged twice on my credit card.",
  "There is a charge on my bill that I do not know.",
  "The app keeps crashing when I open it.",
  "I cannot log in to my account any more.",
  "I want to cancel my subscription.",
  "How much does the premium plan cost?",
  "I need to change my delivery address.",
  "My headphones arrived broken.",
  "Can I return a jacket that does not fit?",
  "I forgot my password.",
  "I never got a confirmation email.",
  "Do you offer a discount for students?",
  "The website shows an error when I pay.",
  "I would like to speak to a person.",
];
const heldOutOpeners = [
  "My parcel has not come and it is ten days late.",
  "You took the money from my card two times.",
  "Your app closes itself as soon as it starts.",
  "Please end my subscription.",
  "The lamp I bought came in pieces.",
  "I do not remember my password.",
  "What is the price of the big plan?",
  "Can I send back shoes that are too small?",
];

export const environmentOf = (which: "train" | "heldOut") =>
  new ConversationEnvironment({
    scenarios: (which === "train" ? openers : heldOutOpeners).map(
      (text, i): ConversationScenario => ({
        id: `${which}-${i}`,
        userResponses: [text],
      }),
    ),
  });

/** 1 for a polite reply of at most 12 words; politeness and brevity count half each, and brevity fades to 0 at 30 words. */
export class PoliteAndShort extends RewardFunction {
  constructor() {
    super({ name: "polite-and-short" });
  }

  override async compute({ turns }: RewardInput) {
    const replies = turns.filter((turn) => turn.role === "assistant").map((turn) => turn.content);
    const scores = replies.map((reply) => {
      const words = reply.split(/\s+/).filter(Boolean).length;
      const polite = /\b(please|thank|thanks|happy to help|sorry)\b/i.test(reply) ? 1 : 0;
      const brief = words === 0 ? 0 : Math.min(1, Math.max(0, (30 - words) / 18));
      return (polite + brief) / 2;
    });
    const score = scores.reduce((sum, value) => sum + value, 0) / Math.max(1, scores.length);
    return { score, breakdown: { "polite-and-short": score } };
  }
}
