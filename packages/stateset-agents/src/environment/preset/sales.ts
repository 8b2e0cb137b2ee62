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
  {
    id: "held-out-pro-plan-cost",
    topic: "prices",
    userResponses: ["What would the pro plan cost me?", "That is above my budget.", "Is there something smaller?"],
  },
  {
    id: "held-out-monthly-or-yearly",
    topic: "prices",
    userResponses: ["Is it cheaper to pay by the year?", "How much do I save?", "Then I take the year."],
  },
  {
    id: "held-out-price-difference",
    topic: "prices",
    userResponses: [
      "What is the difference between basic and premium?",
      "Is it worth the money?",
      "Alright, basic then.",
    ],
  },
  {
    id: "held-out-team-of-ten",
    topic: "prices",
    userResponses: [
      "We are a team of ten, what would that be?",
      "Do you give a discount for teams?",
      "I have to ask my boss.",
    ],
  },
  {
    id: "held-out-hidden-costs",
    topic: "prices",
    userResponses: ["Are there any extra fees?", "So that is the whole price?", "Good, thank you."],
  },
  {
    id: "held-out-trial-length",
    topic: "prices",
    userResponses: ["How long can I try it for free?", "Do I need a credit card for that?", "Okay, let me start."],
  },
  {
    id: "held-out-after-trial",
    topic: "prices",
    userResponses: ["What happens when the trial is over?", "Can I stop before that?", "Sounds fair."],
  },
  {
    id: "held-out-teacher-discount",
    topic: "prices",
    userResponses: ["Do teachers pay less?", "I work at a public school.", "How do I show that?"],
  },
  {
    id: "held-out-cheaper-elsewhere",
    topic: "prices",
    userResponses: ["Another shop sells it for less.", "It is 20 dollars cheaper there.", "Can you match that?"],
  },
  {
    id: "held-out-black-friday",
    topic: "prices",
    userResponses: ["Will there be a sale in November?", "I can wait a few weeks.", "Thanks for telling me."],
  },
  {
    id: "held-out-voucher",
    topic: "prices",
    userResponses: ["I have a voucher, how do I use it?", "It says that it is not valid.", "It is from last year."],
  },
  {
    id: "held-out-instalments",
    topic: "prices",
    userResponses: ["Can I pay in parts?", "Over six months, if possible.", "Does that cost more?"],
  },
  {
    id: "held-out-upgrade",
    topic: "prices",
    userResponses: ["I have the small plan and need more space.", "What do I pay then?", "Please change it."],
  },
  {
    id: "held-out-which-laptop",
    topic: "products",
    userResponses: ["Which laptop is good for photos?", "I can spend about 900 dollars.", "I like the second one."],
  },
  {
    id: "held-out-gift-idea",
    topic: "products",
    userResponses: [
      "I am looking for a gift for my father.",
      "He likes to cook.",
      "Not more than 50 dollars.",
      "Nice, I will take it.",
    ],
  },
  {
    id: "held-out-other-colours",
    topic: "products",
    userResponses: ["Do the shoes come in black?", "In size 42?", "Great, I will order them."],
  },
  {
    id: "held-out-warranty",
    topic: "products",
    userResponses: ["How long is the warranty?", "Does it cover water?", "Hmm, can I make it longer?"],
  },
  {
    id: "held-out-sold-out-jacket",
    topic: "products",
    userResponses: [
      "The green jacket is sold out, will you get more?",
      "I need it before winter.",
      "Let me know, please.",
    ],
  },
  {
    id: "held-out-fits-my-phone",
    topic: "products",
    userResponses: ["Does this case fit an older phone?", "It is from 2019.", "Then which one does?"],
  },
  {
    id: "held-out-headphones",
    topic: "products",
    userResponses: ["Are these headphones good for running?", "Do they last a whole day?", "What do they cost?"],
  },
  {
    id: "held-out-big-order",
    topic: "products",
    userResponses: ["Can I order two hundred cups?", "With our name on them.", "When could we have them?"],
  },
  {
    id: "held-out-express",
    topic: "delivery",
    userResponses: [
      "How fast is express delivery?",
      "And what does it cost?",
      "I need it by Friday.",
      "Fine, do that.",
    ],
  },
  {
    id: "held-out-ship-to-norway",
    topic: "delivery",
    userResponses: ["Can you send it to Norway?", "Do I pay customs?", "Okay, I understand."],
  },
  {
    id: "held-out-pick-up",
    topic: "delivery",
    userResponses: ["Can I pick it up in your store?", "I live in Boston.", "Is it there today?"],
  },
  {
    id: "held-out-free-shipping-from",
    topic: "delivery",
    userResponses: ["From what amount is shipping free?", "I have 45 dollars in my cart.", "Then I add something."],
  },
  {
    id: "held-out-weekend-delivery",
    topic: "delivery",
    userResponses: ["Do you deliver on Saturdays?", "I am at work all week.", "Does that cost extra?"],
  },
];
