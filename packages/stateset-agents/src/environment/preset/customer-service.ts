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
  {
    id: "held-out-five-days-late",
    topic: "orders",
    userResponses: [
      "My parcel should have been here five days ago.",
      "Order 20457.",
      "I would rather have my money back.",
    ],
  },
  {
    id: "held-out-stuck-in-transit",
    topic: "orders",
    userResponses: [
      "The tracking page has not moved since Monday.",
      "33908",
      "Can you find out where it is?",
      "Please tell me when you know.",
    ],
  },
  {
    id: "held-out-marked-delivered",
    topic: "orders",
    userResponses: [
      "It says delivered, but there is nothing at my door.",
      "The number is 59120.",
      "No, my neighbours do not have it.",
      "Send it once more.",
    ],
  },
  {
    id: "held-out-birthday-present",
    topic: "orders",
    userResponses: [
      "I ordered a birthday present and it is still not here.",
      "It's 41876.",
      "The party is on Saturday.",
      "Then please refund it.",
    ],
  },
  {
    id: "held-out-half-the-order",
    topic: "orders",
    userResponses: ["Only half of my order came.", "90233.", "The shoes are missing.", "How soon can you send them?"],
  },
  {
    id: "held-out-change-address",
    topic: "orders",
    userResponses: ["I moved, can you send my order to the new address?", "Order 15542.", "12 Oak Street, please."],
  },
  {
    id: "held-out-lost-in-the-mail",
    topic: "orders",
    userResponses: ["I think the post office lost my box.", "That would be 72609.", "A new one, please."],
  },
  {
    id: "held-out-no-tracking-number",
    topic: "orders",
    userResponses: ["You never gave me a tracking number.", "84317", "Thanks, when does it get here?"],
  },
  {
    id: "held-out-paid-double",
    topic: "billing",
    userResponses: [
      "You took the money two times this month.",
      "Maria Lopez.",
      "It was $25 both times.",
      "How long until I see it?",
    ],
  },
  {
    id: "held-out-price-on-invoice",
    topic: "billing",
    userResponses: [
      "The invoice shows a higher price than the shop did.",
      "My name is Tom Reed.",
      "It said 50 dollars.",
      "What happens now?",
    ],
  },
  {
    id: "held-out-charged-after-cancel",
    topic: "billing",
    userResponses: [
      "I cancelled in March and you still charge me.",
      "It's Helen Ward.",
      "Yes, this month as well.",
      "Give it back, please.",
    ],
  },
  {
    id: "held-out-strange-payment",
    topic: "billing",
    userResponses: [
      "What is this payment to you on my account?",
      "Omar Haddad.",
      "I did not order anything.",
      "When will I know more?",
    ],
  },
  {
    id: "held-out-refund-not-there",
    topic: "billing",
    userResponses: [
      "My refund has not come yet.",
      "I'm Julia Stone.",
      "You sent it two weeks ago.",
      "Okay, I will wait.",
    ],
  },
  {
    id: "held-out-change-card",
    topic: "billing",
    userResponses: ["I got a new credit card and need to change it.", "Peter Lang.", "Great, is that all?"],
  },
  {
    id: "held-out-tax-on-bill",
    topic: "billing",
    userResponses: ["Why is there tax on my bill twice?", "Sven Olsen.", "On the last two."],
  },
  {
    id: "held-out-invoice-copy",
    topic: "billing",
    userResponses: ["Could I have a copy of my last invoice?", "It's for Nina Patel.", "By email, please."],
  },
  {
    id: "held-out-end-membership",
    topic: "cancelling",
    userResponses: ["I would like to end my membership.", "It costs too much.", "Yes, please go ahead."],
  },
  {
    id: "held-out-close-account",
    topic: "cancelling",
    userResponses: ["How do I close my account?", "I do not need it any more.", "No, nothing can change my mind."],
  },
  {
    id: "held-out-no-renewal",
    topic: "cancelling",
    userResponses: ["Please do not renew my plan next year.", "I hardly use it.", "Thank you, is it done?"],
  },
  {
    id: "held-out-cancel-new-order",
    topic: "cancelling",
    userResponses: ["I ordered something an hour ago and want to cancel.", "37781", "I picked the wrong colour."],
  },
  {
    id: "held-out-arrived-broken",
    topic: "returns",
    userResponses: [
      "The lamp came in pieces.",
      "It's order 66045.",
      "I would like another one.",
      "Do I send the broken one back?",
    ],
  },
  {
    id: "held-out-wrong-item",
    topic: "returns",
    userResponses: ["This is not what I ordered.", "28814", "I ordered a blue jacket.", "Who pays for the way back?"],
  },
  {
    id: "held-out-too-small",
    topic: "returns",
    userResponses: ["The trousers are too small for me.", "Order 93370.", "One size up, please."],
  },
  {
    id: "held-out-stopped-working",
    topic: "returns",
    userResponses: [
      "The headphones stopped working after a week.",
      "It is 54402.",
      "I want my money back.",
      "How long will it take?",
    ],
  },
  {
    id: "held-out-return-window",
    topic: "returns",
    userResponses: [
      "How many days do I have to send something back?",
      "I got it last week.",
      "Alright, I will do that.",
    ],
  },
  {
    id: "held-out-third-call",
    topic: "complaints",
    userResponses: [
      "This is the third time I write to you.",
      "Nobody has answered me.",
      "Can I speak to your manager?",
    ],
  },
];
