import type { ConversationScenarioInput } from "../parse-scenario.ts";

/** Prices, plans, discounts, trials, delivery and stock. */
export const salesTrain: readonly ConversationScenarioInput[] = [
  {
    id: "premium-plan-price",
    topic: "prices",
    userResponses: [
      "How much does the premium plan cost?",
      "Is there a discount for students?",
      "That's too expensive for me.",
    ],
  },
  {
    id: "prices",
    topic: "prices",
    userResponses: ["What are your prices?", "Is there a free trial?", "Sounds good."],
  },
  {
    id: "price-per-month",
    topic: "prices",
    userResponses: ["What do you charge per month?", "Can I try it first?", "Okay, I will take it."],
  },
  {
    id: "business-plan",
    topic: "prices",
    userResponses: [
      "Can you tell me the price for the business plan?",
      "Do you have any discounts?",
      "Too much for me.",
    ],
  },
  {
    id: "family-plan",
    topic: "prices",
    userResponses: ["How expensive is the family plan?", "That is a lot.", "I will think about it."],
  },
  {
    id: "backpack-price",
    topic: "products",
    userResponses: ["Price for the backpack?", "Can I get it cheaper?", "Sign me up."],
  },
  {
    id: "shipping-cost",
    topic: "delivery",
    userResponses: ["How much is shipping?", "How long is the delivery time?", "Okay, thanks."],
  },
  {
    id: "in-stock",
    topic: "products",
    userResponses: ["Is the blue one in stock?", "Do you have it in a larger size?", "Okay, I will take it."],
  },
  {
    id: "deals",
    topic: "prices",
    userResponses: ["Hello", "Any deals right now?", "That is more than I wanted to pay.", "Sounds good."],
  },
  {
    id: "ships-to-canada",
    topic: "delivery",
    userResponses: ["Do you ship to Canada?", "Is shipping free?", "Great, thank you."],
  },
  {
    id: "coupon",
    topic: "prices",
    userResponses: ["My coupon code doesn't work.", "Can I use two coupons?", "Where do I enter the code?"],
  },
];

/** The same situations in other words; never in salesTrain. */
export const salesHeldOut: readonly ConversationScenarioInput[] = [
  {
    id: "held-out-student-plan",
    topic: "prices",
    userResponses: [
      "I have a question about the price of the student plan.",
      "I can not afford that.",
      "Any way to bring that down?",
    ],
  },
  {
    id: "held-out-year",
    topic: "prices",
    userResponses: ["What does it cost for a year?", "I saw it cheaper somewhere else.", "Okay, I will try."],
  },
  {
    id: "held-out-delivery-cost",
    topic: "delivery",
    userResponses: ["What does delivery cost?", "Do you ship abroad?", "No, that's all."],
  },
  {
    id: "held-out-back-in-stock",
    topic: "products",
    userResponses: ["When is it back in stock?", "It is too expensive.", "My friend pays less."],
  },
  {
    id: "held-out-family-pays",
    topic: "prices",
    userResponses: ["How much would a family pay?", "Hmm, that is too high.", "Alright."],
  },
];
