/** Users to talk to, one line each; conversations of two turns add what is said next. Held-out ones word the same troubles otherwise. */
import { ConversationEnvironment, createRandom, type ToolDefinition } from "stateset-agents";

const lines: readonly (readonly [topic: string, training: string, heldOut: string])[] = [
  ["order", "Hi, my order is two weeks late.", "The order I made in May has not come."],
  ["package", "Where is my package?", "Can you find my package?"],
  ["card", "I was charged twice on my card.", "You took money from my card two times."],
  ["bill", "There is a strange charge on my bill.", "My bill is too high this month."],
  ["app", "The app keeps crashing.", "Your app closes as soon as it starts."],
  ["account", "I cannot log in to my account.", "My account is locked."],
  ["subscription", "I want to cancel my subscription.", "Please end my subscription."],
  ["plan", "How much does the premium plan cost?", "What is the price of the big plan?"],
  ["address", "I need to change my delivery address.", "I moved and have a new address."],
  ["headphones", "My headphones arrived broken.", "One side of the headphones is silent."],
  ["jacket", "Can I return a jacket that does not fit?", "The jacket is too small for me."],
  ["password", "I forgot my password.", "I do not remember my password."],
  ["email", "I never got a confirmation email.", "Your email did not arrive."],
  ["discount", "Do you have a discount for students?", "Is there a discount for teachers?"],
  ["website", "The website shows an error when I pay.", "Paying on the website fails."],
  ["refund", "When do I get my refund?", "How long does a refund take?"],
];

export interface Where {
  heldOut: boolean;
}

/** `next`: what every user says after the first reply. */
export function supportLines({ heldOut }: Where, next: readonly string[] = []): ConversationEnvironment {
  return new ConversationEnvironment({
    scenarios: lines.map(([topic, training, other]) => ({
      id: topic,
      userResponses: [heldOut ? other : training, ...next],
    })),
  });
}

/** Of every four users who say the same, one is of another kind: nothing shows it, so the majority decides what is learnt. */
export function mixedLines(where: Where, topics: readonly string[]): ConversationEnvironment {
  const said = supportLines(where).scenarios.filter(({ id }) => topics.includes(id));
  return new ConversationEnvironment({
    scenarios: said.flatMap((scenario) => [
      ...[1, 2, 3].map((i) => ({ ...scenario, id: `${scenario.id}-${i}`, topic: "usual" })),
      { ...scenario, id: `${scenario.id}-rare`, topic: "rare" },
    ]),
  });
}

const tool = (name: string, ...parameters: string[]): ToolDefinition => ({
  type: "function",
  function: {
    name,
    parameters: { type: "object", properties: Object.fromEntries(parameters.map((one) => [one, { type: "string" }])) },
  },
});

/** Requests with one right call each; the reply is that call. */
export function toolLines({ heldOut }: Where, shop: "retail" | "clinic" | "library"): ConversationEnvironment {
  const requests = {
    retail: [
      ["get_order", "order_id", "What is the status of order #?"],
      ["cancel_order", "order_id", "Please cancel order #."],
      ["find_product", "product_id", "Do you still have product #?"],
    ],
    clinic: [
      ["find_patient", "patient_id", "Show me patient #."],
      ["book_visit", "patient_id", "Please book a visit for patient #."],
      ["get_results", "test_id", "Are the results of test # there?"],
    ],
    library: [
      ["find_book", "book_id", "Do you have book #?"],
      ["renew_loan", "loan_id", "Please renew loan #."],
      ["get_member", "member_id", "Show me member #."],
    ],
  } as const;
  const random = createRandom(heldOut ? 71 : 72);
  const tools = requests[shop].map(([name, parameter]) => tool(name, parameter));
  return new ConversationEnvironment({
    scenarios: requests[shop].flatMap(([name, parameter, text]) =>
      Array.from({ length: 4 }, (_, i) => {
        const id = String(10 + Math.floor(90 * random.next()));
        const expected = JSON.stringify({ name, arguments: { [parameter]: id } });
        return { id: `${name}-${i}`, userResponses: [text.replace("#", id)], tools, expected };
      }),
    ),
  });
}
