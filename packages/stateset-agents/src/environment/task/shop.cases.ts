/** A small shop that tests of tasks play in. */
import type { Turn } from "../../conversation/trajectory.ts";
import type { EnvironmentState } from "../environment.ts";
import { type Task, TaskEnvironment } from "../task-environment.ts";
import type { StatefulMetadata, StatefulTaskOptions } from "./stateful.ts";
import type { TaskTool } from "./task-tool.ts";

export interface Shop {
  orders: Record<string, { status: string }>;
}

const orderId = { type: "object", properties: { order_id: { type: "string" } }, required: ["order_id"] };
export const getOrder: TaskTool<Shop> = {
  name: "get_order",
  parameters: orderId,
  run: ({ orders }, { order_id }) => ({ result: orders[order_id] ?? { error: "no such order" } }),
};
export const cancelOrder: TaskTool<Shop> = {
  name: "cancel_order",
  parameters: orderId,
  run: (shop, { order_id }) => ({
    state: { orders: { ...shop.orders, [order_id]: { status: "cancelled" } } },
    result: "cancelled",
  }),
};
export const state: Shop = { orders: { "1": { status: "open" }, "2": { status: "shipped" } } };
export const cancel = {
  id: "cancel",
  prompt: "Cancel order 1.",
  state,
  expect: {
    state: { orders: { "1": { status: "cancelled" } } },
    writes: [{ tool: "cancel_order", arguments: { order_id: "1" } }],
    said: [["cancelled", "canceled"]],
  },
};
export const shop = (more: Partial<StatefulTaskOptions<Shop>> = {}) =>
  new TaskEnvironment<Shop>({ tasks: [cancel], tools: [getOrder, cancelOrder], ...more });

let ids = 0;
export const say = (content: string): Turn => ({ role: "assistant", content });
export const call = (...calls: [name: string, args: unknown][]): Turn => ({
  role: "assistant",
  content: "",
  tool_calls: calls.map(([name, args]) => ({
    id: `call${++ids}`,
    type: "function",
    function: { name, arguments: typeof args === "string" ? args : JSON.stringify(args) },
  })),
});

export async function play(environment: TaskEnvironment, replies: readonly Turn[], from?: EnvironmentState<Task>) {
  let current = from ?? (await environment.reset(environment.scenarios[0], { seed: 1 }));
  const rewards: (number | undefined)[] = [];
  for (const reply of replies) {
    if (current.done) break;
    const next = await environment.step(current, reply);
    rewards.push(next.reward);
    current = next.state;
  }
  return { state: current, notes: current.metadata as unknown as StatefulMetadata<Shop>, rewards };
}
