/** What customers are called, buy and say: in training the first list, held out the second. */
import type { Split } from "../domain.ts";

export const customers: Split<string> = [
  ["anna", "ben", "clara", "david", "emma", "felix", "greta", "henry", "ida", "jonas"],
  ["karen", "leon", "marta", "nils", "olga", "peter", "rosa", "simon", "tina", "victor"],
];

export const items: Split<string> = [
  ["red lamp", "blue chair", "green mug", "black table", "white vase", "wooden shelf", "small rug", "round mirror"],
  ["grey sofa", "yellow clock", "brown desk", "silver tray", "tall plant", "soft pillow", "glass bowl", "iron stool"],
];

export const where: Split<string> = [
  [
    "Where is my order {order}?",
    "What is the status of order {order}?",
    "Please check order {order}.",
    "How far is order {order}?",
    "Has order {order} been sent yet?",
    "I am waiting for order {order}.",
  ],
  [
    "What about order {order}?",
    "Could you check on order {order}?",
    "Show me order {order}.",
    "Any news of order {order}?",
  ],
];

export const wishes: Record<"cancel" | "refund", Split<string>> = {
  cancel: [
    [
      "Please cancel order {order}.",
      "Can you cancel order {order}?",
      "I would like to cancel order {order}.",
      "Cancel order {order} for me.",
      "I no longer need order {order}.",
      "Stop order {order}, please.",
      "I changed my mind about order {order}.",
      "Would you take back order {order}?",
    ],
    [
      "Order {order} should be cancelled, please.",
      "I want to cancel order {order}.",
      "Could order {order} be cancelled?",
      "Get rid of order {order}.",
    ],
  ],
  refund: [
    [
      "Please refund order {order}.",
      "Can you refund order {order}?",
      "I would like a refund for order {order}.",
      "Refund order {order} for me.",
      "Please pay me back for order {order}.",
      "I am not happy with order {order} and want the money.",
      "Would you return what I paid for order {order}?",
      "Give me a refund on order {order}.",
    ],
    [
      "I want my money back for order {order}.",
      "I want a refund of order {order}.",
      "Could order {order} be refunded?",
      "Order {order} should be refunded, please.",
    ],
  ],
};

export const vague: Record<"where" | "cancel" | "refund", Split<string>> = {
  where: [
    ["Where is my order?", "What is the status of my order?", "Please check my order.", "Has my order been sent yet?"],
    ["What about my order?", "Could you check on my order?", "Any news of my order?"],
  ],
  cancel: [
    [
      "Please cancel my order.",
      "Can you cancel my order?",
      "I would like to cancel my order.",
      "I no longer need my order.",
    ],
    ["My order should be cancelled.", "I want to cancel my order.", "Could my order be cancelled?"],
  ],
  refund: [
    ["Please refund my order.", "Can you refund my order?", "I would like a refund.", "Please pay me back."],
    ["I want my money back.", "I want a refund of my order.", "Could my order be refunded?"],
  ],
};

export const exchange: Split<string> = [
  [
    "Please exchange the item of order {order} for a {item}.",
    "Can you exchange order {order} for a {item}?",
    "I would like a {item} instead of what came with order {order}.",
  ],
  [
    "I want to swap order {order} for a {item}.",
    "Could I have a {item} in exchange for order {order}?",
    "Order {order} should be exchanged for a {item}.",
  ],
];

export const vagueExchange: Split<string> = [
  [
    "Please exchange the item of order {order}.",
    "Can you exchange order {order}?",
    "I would like something else instead of order {order}.",
  ],
  [
    "I want to swap order {order}.",
    "Could I have another item for order {order}?",
    "Order {order} should be exchanged.",
  ],
];

export const stockQuestion: Split<string> = [
  [
    "How many of the {item} do you have?",
    "How many pieces of the {item} are in stock?",
    "Please check the stock of the {item}.",
  ],
  ["Is the {item} in stock, and how many?", "What is left of the {item}?", "Tell me how many {item} you have."],
];

export const either: Split<string> = [
  [
    "Please cancel order {order}, or refund it if it is delivered already.",
    "Can you cancel order {order}? If it has arrived, refund it.",
  ],
  [
    "If order {order} is still open cancel it, if it came refund it.",
    "Order {order}: cancel it, or my money back if it was delivered.",
  ],
];

export const byEmail: Split<string> = [
  ["My email is {email}.", "You find me under {email}."],
  ["I am {email}.", "It is under {email}."],
];

export const thisOrder: Split<string> = [
  ["It is order {order}.", "The order number is {order}.", "I mean {order}.", "{order}."],
  ["Number {order}.", "That is {order}."],
];

export const thisItem: Split<string> = [
  ["For a {item}.", "I would like the {item}."],
  ["A {item}, please.", "The {item}."],
];
