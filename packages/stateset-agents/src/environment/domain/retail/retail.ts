/**
 * A shop's service desk. Level 1: one order, known by its number. Level 2: orders found by email, exchanges, stock, a term of 30 days.
 * Level 3: two wishes in one conversation, wishes that depend on what the order is, and customers who ask for what is not theirs.
 */
import type { CallPattern } from "../../task/declared.ts";
import {
  claimsOf,
  type DomainTask,
  type Draw,
  defineDomain,
  fill,
  refusals,
  type SolutionStep,
  type TaskClass,
} from "../domain.ts";
import * as phrases from "./phrases.ts";
import { type Order, retailTools, type Shop } from "./tools.ts";

const policies: Record<number, string> = {
  1: "Open orders can be cancelled. Delivered orders can be refunded. Look at the order first. Otherwise say its status.",
  2: "Open orders can be cancelled. Orders delivered within the last 30 days can be refunded, or exchanged for an item in stock. Look at the order first. If it is not allowed, say that you cannot do it, and why.",
};
policies[3] = `${policies[2]} Change an order only for the customer whose email it has.`;

const statuses = ["open", "shipped", "delivered", "lost"];
const done = { cancel: ["cancelled", "canceled"], refund: ["refunded"], exchange: ["exchanged"] } as const;
type Wish = keyof typeof done;
const claims = Object.fromEntries(Object.entries(done).map(([wish, words]) => [wish, claimsOf(...words)]));
const facts = {
  order: (says: string) => ({ asked: ["order", "number", "id"], says }),
  email: (says: string) => ({ asked: ["email", "e-mail", "mail", "address"], says }),
  item: (says: string) => ({ asked: ["item", "what", "which", "instead", "for"], says }),
};

/** A shop with the customer's orders first, and others that could be written to by mistake. */
class World {
  readonly draw: Draw;
  readonly email: string;
  readonly stranger: string;
  readonly shelf: string[];
  readonly #ids: string[];
  readonly orders: Record<string, Order> = {};
  readonly stock: Record<string, number>;

  constructor(draw: Draw) {
    this.draw = draw;
    const { random } = draw;
    // Even numbers are trained on, odd ones held out.
    const numbers = random.shuffled(Array.from({ length: 4500 }, (_, i) => i)).slice(0, 6);
    this.#ids = numbers.map((n) => String(1000 + 2 * n + (draw.heldOut ? 1 : 0)));
    const [one, other] = draw.some(phrases.customers, 2);
    [this.email, this.stranger] = [`${one}@example.com`, `${other}@example.com`];
    this.shelf = draw.some(phrases.items, 8);
    this.stock = Object.fromEntries(this.shelf.map((item, i) => [item, i === 7 ? 0 : 2 + random.below(7)]));
  }

  order(more: Partial<Order>): Order {
    const order_id = this.#ids[Object.keys(this.orders).length]!;
    const item = this.shelf[Object.keys(this.orders).length]!;
    const order = { order_id, email: this.email, item, status: "open", ...more };
    this.orders[order_id] = order;
    return order;
  }

  state(): Shop {
    for (const status of ["open", "delivered", "open"]) {
      this.order({ email: this.stranger, status, ...(status === "delivered" && { days_since_delivery: 3 }) });
    }
    // Where an order stands in the list must say nothing of whose it is.
    const orders = this.draw.random.shuffled(Object.entries(this.orders));
    return { orders: Object.fromEntries(orders), stock: this.stock };
  }
}

const call = (name: string, args: Record<string, string>): SolutionStep => ({ call: name, arguments: args });
const look = ({ order_id }: Order) => call("get_order", { order_id });
const looked = ({ order_id }: Order): CallPattern => ({ tool: "get_order", arguments: { order_id } });
const write = (wish: "cancel" | "refund", { order_id }: Order) => call(`${wish}_order`, { order_id });
const wrote = (step: SolutionStep): CallPattern =>
  "call" in step ? { tool: step.call, arguments: step.arguments } : { tool: "" };
const others = (status: string) => statuses.filter((one) => one !== status);
const allowed = { cancel: { status: "open" }, refund: { status: "delivered", days_since_delivery: 5 } };
const refused = { cancel: "shipped", refund: "lost" };

function first(draw: Draw, kind: TaskClass, number: number): DomainTask {
  const world = new World(draw);
  const wish = number % 2 === 0 ? "cancel" : "refund";
  const tell = ({ order_id, status }: Order) => ({ say: `Order ${order_id} is ${status}.` });
  if (kind === "lookup" || (kind === "ask" && number % 3 === 0)) {
    const order = world.order({ status: statuses[number % statuses.length]! });
    const about = { order: order.order_id };
    const asks = kind === "ask";
    const goal = asks ? draw.of(phrases.vague.where) : fill(draw.of(phrases.where), about);
    return {
      state: world.state(),
      user: { goal, ...(asks && { facts: [facts.order(fill(draw.of(phrases.thisOrder), about))] }) },
      expect: { calls: [looked(order)], writes: [], said: [order.status] },
      forbid: { said: others(order.status) },
      solution: [...(asks ? [{ say: "Which order number is it?" }] : []), look(order), tell(order)],
    };
  }
  if (kind === "refuse") {
    const order = world.order({ status: refused[wish] });
    return {
      state: world.state(),
      user: { goal: fill(draw.of(phrases.wishes[wish]), { order: order.order_id }) },
      expect: { calls: [looked(order)], writes: [], said: [order.status] },
      forbid: { said: [...others(order.status), ...claims[wish]!] },
      solution: [look(order), { say: `Sorry, order ${order.order_id} is ${order.status}.` }],
    };
  }
  const order = world.order(allowed[wish]);
  const about = { order: order.order_id };
  const deed = write(wish, order);
  const asks = kind === "ask";
  return {
    state: world.state(),
    user: asks
      ? { goal: draw.of(phrases.vague[wish]), facts: [facts.order(fill(draw.of(phrases.thisOrder), about))] }
      : { goal: fill(draw.of(phrases.wishes[wish]), about) },
    // Who writes blindly is right here by luck alone, and wrong where the order forbids it.
    expect: { calls: [looked(order)], writes: [wrote(deed)], said: [[...done[wish], wish]] },
    solution: [
      ...(asks ? [{ say: "Which order number is it?" }] : []),
      look(order),
      deed,
      { say: `Order ${order.order_id} is ${done[wish][0]}.` },
    ],
  };
}

function second(draw: Draw, kind: TaskClass, number: number): DomainTask {
  const world = new World(draw);
  const wanted = world.shelf[number % 2 === 0 ? 6 : 5]!;
  if (kind === "lookup") {
    if (number % 2 === 1) {
      const goal = fill(draw.of(phrases.stockQuestion), { item: wanted });
      const left = String(world.stock[wanted]);
      const asked = { item: wanted };
      return {
        state: world.state(),
        user: { goal },
        expect: { calls: [{ tool: "check_stock", arguments: asked }], writes: [], said: [left] },
        forbid: { said: ["2", "3", "4", "5", "6", "7", "8", "0"].filter((one) => one !== left) },
        solution: [call("check_stock", asked), { say: `We have ${left} of the ${wanted}.` }],
      };
    }
    const order = world.order({ status: draw.one(statuses) });
    const email = { email: world.email };
    return {
      state: world.state(),
      user: { goal: `${draw.of(phrases.vague.where)} ${fill(draw.of(phrases.byEmail), email)}` },
      expect: { calls: [{ tool: "find_orders", arguments: email }], writes: [], said: [order.status] },
      forbid: { said: others(order.status) },
      solution: [call("find_orders", email), { say: `Your order ${order.order_id} is ${order.status}.` }],
    };
  }
  if (kind === "refuse" && number % 2 === 0) {
    const order = world.order({ status: "delivered", days_since_delivery: 31 + draw.random.below(60) });
    const days = String(order.days_since_delivery);
    return {
      state: world.state(),
      user: { goal: fill(draw.of(phrases.wishes.refund), { order: order.order_id }) },
      expect: { calls: [looked(order)], writes: [], said: [refusals, ["30", days]] },
      forbid: { said: claims.refund! },
      solution: [
        look(order),
        { say: `Sorry, I cannot refund it: it was delivered ${days} days ago, and 30 are allowed.` },
      ],
    };
  }
  const order = world.order(allowed.refund);
  const gone = world.shelf[7]!;
  const item = kind === "refuse" ? gone : wanted;
  const about = { order: order.order_id, item };
  if (kind === "refuse") {
    return {
      state: world.state(),
      user: { goal: fill(draw.of(phrases.exchange), about) },
      expect: { calls: [{ tool: "check_stock", arguments: { item } }], writes: [], said: [refusals, "stock"] },
      forbid: { said: claims.exchange! },
      solution: [
        look(order),
        call("check_stock", { item }),
        { say: `Sorry, I cannot do that: the ${item} is out of stock.` },
      ],
    };
  }
  const deed = call("exchange_item", { order_id: order.order_id, new_item: item });
  const asks = kind === "ask";
  return {
    state: world.state(),
    user: asks
      ? {
          goal: fill(draw.of(phrases.vagueExchange), about),
          facts: [facts.item(fill(draw.of(phrases.thisItem), about))],
        }
      : { goal: fill(draw.of(phrases.exchange), about) },
    expect: {
      state: { orders: { [order.order_id]: { status: "exchanged", item } } },
      writes: [{ tool: "exchange_item", arguments: { order_id: order.order_id } }],
      calls: [looked(order)],
      said: [[...done.exchange, "exchange", item]],
    },
    solution: [
      look(order),
      ...(asks ? [{ say: "Which item would you like instead?" }] : []),
      call("check_stock", { item }),
      deed,
      { say: `Order ${order.order_id} is exchanged for the ${item}.` },
    ],
  };
}

function third(draw: Draw, kind: TaskClass, number: number): DomainTask {
  const world = new World(draw);
  const wish: Exclude<Wish, "exchange"> = number % 2 === 0 ? "cancel" : "refund";
  const email = { email: world.email };
  const mine = fill(draw.of(phrases.byEmail), email);
  if (kind === "lookup") {
    const [one, two] = draw.random
      .shuffled(statuses)
      .slice(0, 2)
      .map((status) => world.order({ status })) as [Order, Order];
    const ask = (order: Order) => fill(draw.of(phrases.where), { order: order.order_id });
    return {
      state: world.state(),
      user: { goal: ask(one), next: [ask(two)] },
      expect: { calls: [looked(one), looked(two)], writes: [], said: [one.status, two.status] },
      forbid: { said: others(one.status).filter((status) => status !== two.status) },
      solution: [one, two].flatMap((order) => [look(order), { say: `Order ${order.order_id} is ${order.status}.` }]),
    };
  }
  if (kind === "refuse") {
    // The order could be changed, but for somebody else.
    const order = world.order({ ...allowed[wish], email: world.stranger });
    return {
      state: world.state(),
      user: { goal: `${fill(draw.of(phrases.wishes[wish]), { order: order.order_id })} ${mine}` },
      expect: {
        calls: [looked(order)],
        writes: [],
        said: [refusals, ["email", "e-mail", "another customer", "not yours"]],
      },
      forbid: { said: claims[wish]! },
      solution: [look(order), { say: "Sorry, I cannot change it: the order has another email." }],
    };
  }
  if (kind === "ask") {
    const order = world.order(allowed[wish]);
    const deed = write(wish, order);
    return {
      state: world.state(),
      user: { goal: draw.of(phrases.vague[wish]), facts: [facts.email(mine)] },
      expect: {
        calls: [{ tool: "find_orders", arguments: email }],
        writes: [wrote(deed)],
        said: [[...done[wish], wish]],
      },
      solution: [
        { say: "What is your email?" },
        call("find_orders", email),
        deed,
        { say: `Order ${order.order_id} is ${done[wish][0]}.` },
      ],
    };
  }
  const order = world.order(allowed[wish]);
  const later = world.order(allowed.refund);
  const deeds = [write(wish, order), write("refund", later)];
  return {
    state: world.state(),
    user: {
      goal: `${fill(draw.of(phrases.either), { order: order.order_id })} ${mine}`,
      next: [fill(draw.of(phrases.wishes.refund), { order: later.order_id })],
    },
    expect: {
      calls: [looked(order), looked(later)],
      writes: deeds.map(wrote),
      said: [
        [...done[wish], wish],
        [...done.refund, "refund"],
      ],
    },
    solution: [
      ...[look(order), deeds[0]!, { say: `Order ${order.order_id} is ${done[wish][0]}.` }],
      ...[look(later), deeds[1]!, { say: `Order ${later.order_id} is refunded.` }],
    ],
  };
}

/** A shop's service desk: orders, refunds, exchanges. */
export const retail = defineDomain({
  name: "retail",
  tools: retailTools,
  policy: (level) => policies[level]!,
  task: (draw, kind, level, number) => [first, second, third][level - 1]!(draw, kind, number),
});
