// What is asked, the same of every side.

const users = [
  "Hi, my order is two weeks late and I want a refund.",
  "The app keeps crashing when I open it.",
  "I was charged twice on my credit card.",
  "I want to cancel my subscription.",
];

/** @returns {{ role: "system" | "user", content: string }[]} */
export function conversation(stream, round) {
  return [
    { role: "system", content: "You are a helpful customer support agent." },
    { role: "user", content: `${users[stream % users.length]} My number is ${1000 * round + stream}.` },
  ];
}
