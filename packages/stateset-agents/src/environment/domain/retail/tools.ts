/** A shop's orders and what can be done with them. Tools obey; the policy is for the agent to keep. */
import type { TaskTool } from "../../task/task-tool.ts";

export interface Order {
  order_id: string;
  email: string;
  item: string;
  status: string;
  days_since_delivery?: number;
}

export interface Shop {
  orders: Readonly<Record<string, Order>>;
  /** Pieces on the shelf, by item. */
  stock: Readonly<Record<string, number>>;
}

const text = { type: "string" };
const takes = (...names: readonly string[]) => ({
  type: "object",
  properties: Object.fromEntries(names.map((name) => [name, text])),
  required: names,
});
const unknown = { result: { error: "There is no such order." } };

/** Changes one order. */
function changing(change: (order: Order, args: Record<string, string>) => Partial<Order>): TaskTool<Shop>["run"] {
  return (shop, args) => {
    const order = shop.orders[args.order_id];
    if (!order) return unknown;
    const changed = { ...order, ...change(order, args) };
    const { email: _, ...shown } = changed;
    return { state: { ...shop, orders: { ...shop.orders, [order.order_id]: changed } }, result: shown };
  };
}

const getOrder: TaskTool<Shop> = {
  name: "get_order",
  description: "Look an order up",
  parameters: takes("order_id"),
  run: ({ orders }, { order_id }) => (orders[order_id] ? { result: orders[order_id] } : unknown),
};
const cancelOrder: TaskTool<Shop> = {
  name: "cancel_order",
  description: "Cancel an order",
  parameters: takes("order_id"),
  run: changing(() => ({ status: "cancelled" })),
};
const refundOrder: TaskTool<Shop> = {
  name: "refund_order",
  description: "Give the money of an order back",
  parameters: takes("order_id"),
  run: changing(() => ({ status: "refunded" })),
};
const exchangeItem: TaskTool<Shop> = {
  name: "exchange_item",
  description: "Send another item in exchange for that of an order",
  parameters: takes("order_id", "new_item"),
  run: changing((_, { new_item }) => ({ status: "exchanged", item: new_item!.toLowerCase().trim() })),
};
const findOrders: TaskTool<Shop> = {
  name: "find_orders",
  description: "Find the orders of a customer",
  parameters: takes("email"),
  run: ({ orders }, { email }) => {
    const found = Object.values(orders).filter((order) => order.email === email);
    return { result: { count: found.length, results: found } };
  },
};
const checkStock: TaskTool<Shop> = {
  name: "check_stock",
  description: "How many pieces of an item are in stock",
  parameters: takes("item"),
  run: ({ stock }, { item }) => ({ result: { item, in_stock: stock[item] ?? 0 } }),
};

export function retailTools(level: number): TaskTool<Shop>[] {
  const first = [getOrder, cancelOrder, refundOrder];
  return level === 1 ? first : [...first, exchangeItem, findOrders, checkStock];
}
