import type { DemoTask } from "./demo-task.ts";
import { politeTask } from "./parts.ts";
import { shopTask } from "./shop.ts";

/** What `demo --task` may name; the first is what it does by itself. */
export const demoTasks = { polite: politeTask, shop: shopTask } as const satisfies Record<string, DemoTask>;
export type DemoTaskName = keyof typeof demoTasks;
export const demoTaskNames = Object.keys(demoTasks) as DemoTaskName[];
