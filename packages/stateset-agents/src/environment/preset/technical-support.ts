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
  {
    id: "held-out-reader-closes",
    topic: "crashes",
    userResponses: ["My reader app shuts down by itself.", "It's a Kindle Fire.", "I have done that twice."],
  },
  {
    id: "held-out-stops-at-start",
    topic: "crashes",
    userResponses: ["The program does not get past the start screen.", "A Windows PC.", "It is still the same."],
  },
  {
    id: "held-out-video-stutters",
    topic: "crashes",
    userResponses: ["Videos stop every few seconds.", "On my iPad.", "The internet is fine.", "Okay, I will try that."],
  },
  {
    id: "held-out-blue-screen",
    topic: "crashes",
    userResponses: [
      "I get a blue screen when I start your software.",
      "It's a Dell laptop.",
      "I restarted it already.",
    ],
  },
  {
    id: "held-out-crash-on-photo",
    topic: "crashes",
    userResponses: ["It crashes as soon as I add a photo.", "A Galaxy S21.", "Yes, I have the newest version."],
  },
  {
    id: "held-out-frozen-screen",
    topic: "crashes",
    userResponses: ["The screen froze and nothing reacts.", "An iPhone 13.", "That worked, thanks."],
  },
  {
    id: "held-out-error-code",
    topic: "crashes",
    userResponses: ["I see error 504 all day.", "On a MacBook Air.", "I cleared it and it comes back."],
  },
  {
    id: "held-out-no-sound",
    topic: "crashes",
    userResponses: ["There is no sound in the app.", "It's a Pixel 7.", "The volume is up.", "Then what?"],
  },
  {
    id: "held-out-wont-install",
    topic: "crashes",
    userResponses: ["The update will not install.", "I use an Android phone.", "There is enough space."],
  },
  {
    id: "held-out-slow-since-update",
    topic: "crashes",
    userResponses: [
      "Everything is slow since the last update.",
      "A Windows tablet.",
      "I closed the other apps.",
      "No change.",
    ],
  },
  {
    id: "held-out-white-page",
    topic: "crashes",
    userResponses: ["Your website only shows a white page.", "I use Chrome.", "I tried another browser too."],
  },
  {
    id: "held-out-cannot-print",
    topic: "crashes",
    userResponses: ["I can not print from your program.", "It's a Mac.", "The printer works elsewhere."],
  },
  {
    id: "held-out-lost-work",
    topic: "crashes",
    userResponses: [
      "The editor closed and my text is gone.",
      "On Windows 11.",
      "I did not save it.",
      "Can I get it back?",
    ],
  },
  {
    id: "held-out-battery-drain",
    topic: "crashes",
    userResponses: ["Your app empties my battery.", "An iPhone SE.", "I turned that off.", "It still does."],
  },
  {
    id: "held-out-not-syncing",
    topic: "crashes",
    userResponses: [
      "My phone and my laptop do not show the same data.",
      "An Android phone and a MacBook.",
      "Both are online.",
    ],
  },
  {
    id: "held-out-login-loop",
    topic: "accounts",
    userResponses: ["It sends me back to the login page every time.", "kate48@example.com", "In every browser."],
  },
  {
    id: "held-out-code-not-coming",
    topic: "accounts",
    userResponses: ["The code for signing in never arrives.", "It's leo73@example.com.", "Nothing in the spam folder."],
  },
  {
    id: "held-out-new-phone",
    topic: "accounts",
    userResponses: ["I have a new phone and can not sign in.", "rosa15@example.com", "The old one is gone."],
  },
  {
    id: "held-out-password-link-old",
    topic: "accounts",
    userResponses: ["The link to change my password does not work.", "tim82@example.com", "Can you send a new one?"],
  },
  {
    id: "held-out-too-many-tries",
    topic: "accounts",
    userResponses: ["It says too many tries and lets me wait.", "It's ella29@example.com.", "How long?"],
  },
  {
    id: "held-out-change-email",
    topic: "accounts",
    userResponses: [
      "How can I change my email address?",
      "From jan44@example.com.",
      "To jan45@example.com.",
      "Got it.",
    ],
  },
  {
    id: "held-out-hacked",
    topic: "accounts",
    userResponses: [
      "I think somebody else uses my account.",
      "nora66@example.com",
      "I did not change anything.",
      "What should I do first?",
    ],
  },
  {
    id: "held-out-user-name-gone",
    topic: "accounts",
    userResponses: ["I do not remember my user name.", "My email is carl90@example.com.", "Thank you."],
  },
  {
    id: "held-out-account-not-found",
    topic: "accounts",
    userResponses: ["It says that my account does not exist.", "lucas37@example.com", "I used it yesterday."],
  },
  {
    id: "held-out-verify-account",
    topic: "accounts",
    userResponses: ["How do I verify my account?", "mia58@example.com", "I did not get the email."],
  },
  {
    id: "held-out-two-accounts",
    topic: "accounts",
    userResponses: [
      "I have two accounts by mistake.",
      "sam12@example.com and sam13@example.com.",
      "Keep the first one.",
    ],
  },
];
