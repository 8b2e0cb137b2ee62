import type { ConversationScenarioInput } from "../parse-scenario.ts";

/** Late orders, refunds, returns, billing, cancelling. */
export const customerServiceTrain: readonly ConversationScenarioInput[] = [
  {
    id: "late-order-refund",
    topic: "orders",
    userResponses: [
      "Hi, my order is two weeks late and I want a refund.",
      "The order number is 48213.",
      "A refund please.",
    ],
  },
  {
    id: "package-never-arrived",
    topic: "orders",
    userResponses: ["My package never arrived.", "Order 77102.", "Send a new one.", "When will I get it?"],
  },
  {
    id: "delivery-late-again",
    topic: "orders",
    userResponses: ["My delivery is late again.", "Sure, 30518.", "I still want it.", "How long does that take?"],
  },
  {
    id: "charged-twice",
    topic: "billing",
    userResponses: [
      "I was charged twice on my credit card.",
      "It's Anna Miller.",
      "It was $40 both times.",
      "When do I get the money?",
    ],
  },
  {
    id: "unknown-charge",
    topic: "billing",
    userResponses: [
      "There is a charge I do not know.",
      "My name is Paul Young.",
      "Yes, that is the one.",
      "When will I hear back?",
    ],
  },
  {
    id: "wrong-bill",
    topic: "billing",
    userResponses: ["My bill is wrong.", "Sara Khan.", "85 dollars.", "How long does it take?"],
  },
  {
    id: "cancel-subscription",
    topic: "cancelling",
    userResponses: ["I want to cancel my subscription.", "Because I don't use it anymore.", "Yes, I'm sure."],
  },
  {
    id: "cancel-account",
    topic: "cancelling",
    userResponses: ["Please cancel my account.", "I found something better.", "Just cancel it."],
  },
  {
    id: "damaged-product",
    topic: "returns",
    userResponses: [
      "The product I got is damaged.",
      "It's 62984.",
      "I want a refund.",
      "Do I have to pay for shipping?",
    ],
  },
  {
    id: "exchange-size",
    topic: "returns",
    userResponses: ["Can I exchange this for another size?", "Order 50193.", "Okay, send it."],
  },
  {
    id: "receipt",
    topic: "billing",
    userResponses: ["Hi, I need help.", "Can you send me a receipt?", "Great, thank you."],
  },
  {
    id: "angry-customer",
    topic: "complaints",
    userResponses: ["I'm really upset about this.", "Let me talk to a real person.", "What are you going to do?"],
  },
];

/** The same situations in other words; never in customerServiceTrain. */
export const customerServiceHeldOut: readonly ConversationScenarioInput[] = [
  {
    id: "held-out-month-late",
    topic: "orders",
    userResponses: [
      "Where is my order? It is a month late.",
      "It's 11761.",
      "Just give me my money back.",
      "And when?",
    ],
  },
  {
    id: "held-out-nothing-came",
    topic: "orders",
    userResponses: ["Nothing came.", "68649", "Ship it again please.", "How soon?"],
  },
  {
    id: "held-out-two-payments",
    topic: "billing",
    userResponses: ["I see two payments on my card.", "Ben Carter.", "That is right.", "When do I get the money?"],
  },
  {
    id: "held-out-too-much",
    topic: "billing",
    userResponses: ["I think you charged me too much.", "It's Lucy Brown.", "It was $65 both times."],
  },
  {
    id: "held-out-stop-membership",
    topic: "cancelling",
    userResponses: ["Stop my membership.", "I just do not need it.", "No, cancel it."],
  },
  {
    id: "held-out-wrong-thing",
    topic: "returns",
    userResponses: ["I need to cancel my order.", "I ordered the wrong thing.", "Today please."],
  },
];
