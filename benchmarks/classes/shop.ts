/**
 * A shop whose agent can look an order up, cancel it and refund it. Three classes of scenarios, each with one right way through, worth 1.
 * The first wrong reply ends a conversation with 0.
 *   lookup   "Where is my order 4821?" → get_order → tell its state
 *   act      "Where is …" → get_order → words → "Please cancel order 4821." → it is open: the writing call, cancel_order
 *   refuse   "Where is …" → get_order → words → "Please cancel order 4821." → it is shipped: no writing, look again (get_order)
 * The state alone tells `act` from `refuse`, looking up is right everywhere else, and `act` is the rarest. So a policy that never writes
 * does well on average: the class can be lost while the mean rises.
 */
import {
  createRandom,
  Environment,
  type EnvironmentState,
  MultiTurnAgent,
  type RewardFunction,
  rewardFunction,
  type Scenario,
  type StepResult,
  seedOf,
  type Turn,
} from "stateset-agents";

export const classes = ["lookup", "act", "refuse"] as const;
export type ScenarioClass = (typeof classes)[number];

type Wish = "cancel" | "refund";

export interface OrderScenario extends Scenario {
  topic: ScenarioClass;
  order: string;
  state: string;
  question: string;
  /** In the other classes: what the customer wants once the state was told, and the tool whose call is right then. */
  request?: string;
  answer?: string;
}

/** Scenarios of each class, in training as held out: in 100 steps of 4 groups each is met about 13 times. */
const counts: Record<ScenarioClass, number> = { lookup: 12, act: 6, refuse: 12 };
const allowing: Record<Wish, string> = { cancel: "open", refund: "delivered" };
const forbidding: Record<Wish, string> = { cancel: "shipped", refund: "lost" };
const anyState = ["open", "shipped", "delivered", "lost"];

/** Held-out customers say it otherwise, about other orders. */
const phrases = {
  training: {
    questions: ["Where is my order #?", "What is the status of order #?", "Please check order #."],
    cancel: ["Please cancel order #.", "Can you cancel order #?"],
    refund: ["Please refund order #.", "Can you refund order #?"],
  },
  heldOut: {
    questions: ["What about order #?", "Could you check on order #?", "Show me order #."],
    cancel: ["Then cancel order #, please.", "I want to cancel order #."],
    refund: ["Then refund order #, please.", "I want a refund for order #."],
  },
} as const;

export interface ShopOptions {
  heldOut: boolean;
}

export function shopScenarios({ heldOut }: ShopOptions): OrderScenario[] {
  const said = heldOut ? phrases.heldOut : phrases.training;
  const random = createRandom(seedOf("shop", heldOut ? 1 : 0));
  return classes.flatMap((topic) =>
    Array.from({ length: counts[topic] }, (_, i): OrderScenario => {
      // Even numbers are trained on, odd ones held out.
      const order = String(1000 + 2 * Math.floor(4500 * random.next()) + (heldOut ? 1 : 0));
      const about = (texts: readonly string[], n: number) => texts[n % texts.length]!.replace("#", order);
      const common = { id: `${topic}-${i + 1}`, topic, order, question: about(said.questions, i) };
      if (topic === "lookup") return { ...common, state: anyState[i % 4]! };
      const wish: Wish = i % 2 === 0 ? "cancel" : "refund";
      const request = about(said[wish], Math.floor(i / 2));
      if (topic === "refuse") return { ...common, state: forbidding[wish], request, answer: "get_order" };
      return { ...common, state: allowing[wish], request, answer: `${wish}_order` };
    }),
  );
}

export class Shop extends Environment<OrderScenario> {
  readonly scenarios: readonly OrderScenario[];

  constructor(options: ShopOptions) {
    super();
    this.scenarios = shopScenarios(options);
  }

  override async reset(scenario = this.scenarios[0]!, { seed = 0 } = {}): Promise<EnvironmentState<OrderScenario>> {
    const turns: Turn[] = [{ role: "user", content: scenario.question }];
    return { scenario, turns, replies: 0, seed, done: false, metadata: { success: false } };
  }

  override async step(state: EnvironmentState<OrderScenario>, action: Turn): Promise<StepResult<OrderScenario>> {
    const { scenario } = state;
    const replies = state.replies + 1;
    const turns = [...state.turns, action];
    const over = (success: boolean): StepResult<OrderScenario> => ({
      state: { ...state, turns, replies, done: true, ended: "done", metadata: { success } },
      done: true,
    });
    const answer = (userTurn: Turn): StepResult<OrderScenario> => ({
      state: { ...state, turns: [...turns, userTurn], replies },
      userTurn,
      done: false,
    });
    const call = callIn(action.content);
    const { order, request } = scenario;
    if (replies === 1) {
      if (call !== callText("get_order", order)) return over(false);
      return answer({ role: "tool", content: JSON.stringify({ order_id: order, status: scenario.state }) });
    }
    if (replies === 2) {
      if (call !== undefined) return over(false);
      if (request === undefined) return over(action.content.includes(scenario.state));
      return answer({ role: "user", content: request });
    }
    return over(call === callText(scenario.answer!, order));
  }
}

/** The one call a reply consists of, as it is written; undefined when it is words. */
function callIn(reply: string): string | undefined {
  return reply.includes("<tool_call>") ? reply.replace(/<\/?tool_call>/g, "").trim() : undefined;
}

function callText(name: string, order: string): string {
  return `{"name": "${name}", "arguments": {"order_id": "${order}"}}`;
}

export const shopReward: RewardFunction = rewardFunction({ name: "success" }, ({ metadata }) =>
  metadata?.success === true ? 1 : 0,
);

export function shopAgent(): MultiTurnAgent {
  const tool = (name: string) => ({
    type: "function" as const,
    function: { name, parameters: { type: "object", properties: { order_id: { type: "string" } } } },
  });
  return new MultiTurnAgent({
    threads: 1,
    systemPrompt: "You are a shop assistant.",
    tools: ["get_order", "cancel_order", "refund_order"].map(tool),
    sampling: { maxTokens: 40 },
  });
}
