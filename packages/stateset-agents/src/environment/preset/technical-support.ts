import type { ConversationScenarioInput } from "../parse-scenario.ts";

/** Crashes, freezing, passwords and accounts. */
export const technicalSupportTrain: readonly ConversationScenarioInput[] = [
  {
    id: "app-crashes-on-open",
    topic: "crashes",
    userResponses: [
      "The app keeps crashing when I open it.",
      "It's an iPhone 12.",
      "I already tried restarting. What else can I do?",
    ],
  },
  {
    id: "game-crashes",
    topic: "crashes",
    userResponses: ["Your game crashes all the time.", "On an Android tablet.", "It still crashes."],
  },
  {
    id: "website-freezes",
    topic: "crashes",
    userResponses: ["The website freezes after the update.", "I have a Windows laptop.", "It works now."],
  },
  {
    id: "mobile-app-broken",
    topic: "crashes",
    userResponses: ["The mobile app does not work.", "A Samsung Galaxy.", "I already tried that.", "Okay, I will try."],
  },
  {
    id: "software-closes",
    topic: "crashes",
    userResponses: ["The software closes on its own.", "On a MacBook.", "Nothing changed."],
  },
  {
    id: "black-screen",
    topic: "crashes",
    userResponses: ["The game gives me a black screen!", "It's an iPad.", "Reinstalling did nothing."],
  },
  {
    id: "cannot-log-in",
    topic: "accounts",
    userResponses: ["I can't log in.", "emily32@example.com", "I did not get the email."],
  },
  {
    id: "forgot-password",
    topic: "accounts",
    userResponses: ["I forgot my password.", "It's paul17@example.com.", "Got it."],
  },
  {
    id: "account-locked",
    topic: "accounts",
    userResponses: ["Why was my account locked?", "maria54@example.com", "How long does that take?"],
  },
  {
    id: "reset-password",
    topic: "accounts",
    userResponses: ["Can you help me reset my password?", "ben99@example.com", "Thanks."],
  },
  {
    id: "shows-an-error",
    topic: "crashes",
    userResponses: ["Good morning, your program shows an error!", "An iPhone 14.", "That did not help."],
  },
];

/** The same situations in other words; never in technicalSupportTrain. */
export const technicalSupportHeldOut: readonly ConversationScenarioInput[] = [
  {
    id: "held-out-player-crashes",
    topic: "crashes",
    userResponses: ["Your player crashes all the time.", "I have a Pixel 6.", "Still broken."],
  },
  {
    id: "held-out-app-freezes",
    topic: "crashes",
    userResponses: ["Your mobile app freezes all the time.", "On a Windows laptop.", "I did that already."],
  },
  {
    id: "held-out-tablet-app",
    topic: "crashes",
    userResponses: ["The app closes on its own.", "It's an Android tablet.", "Same problem."],
  },
  {
    id: "held-out-password-wrong",
    topic: "accounts",
    userResponses: ["My password does not work.", "It's anna21@example.com.", "I did not get the email."],
  },
  {
    id: "held-out-account-blocked",
    topic: "accounts",
    userResponses: ["My account is blocked.", "omar61@example.com", "When?"],
  },
];
