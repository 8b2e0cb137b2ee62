/** What the page and the server say to each other, for the page: types, and the one piece of code both have. */
export * from "./conversations.ts";
export * from "./live.ts";
export * from "./notes.ts";
export * from "./packed.ts";
export * from "./runs.ts";
export * from "./series.ts";
export * from "./shared.ts";
