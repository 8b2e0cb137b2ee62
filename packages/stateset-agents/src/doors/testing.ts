/** `stateset-agents/testing`: for tests of your own agents, environments, rewards and callbacks, without a model. */
export type { Failure } from "../conversation/failure.ts";
export {
  type GuardedEnvironment,
  type GuardedResult,
  type GuardOptions,
  runGuarded,
} from "../environment/guard.ts";
export { createStubPolicy, type StubOptions, type StubPrompt, type StubReplies } from "../policy/stub/stub-policy.ts";
export type { LoadedTokenizer } from "../policy/tokenizer/index.ts";
export { type FakeConversation, fakeGroup } from "../test-support/fake-group.ts";
export {
  createTablePolicy,
  type TablePolicy,
  type TablePolicyOptions,
  tableWords,
} from "../test-support/table-policy.ts";
