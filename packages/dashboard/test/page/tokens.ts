import { expect, it } from "vitest";
import { type ChainTokens, readTrajectories } from "../../../stateset-agents/src/run/trajectories.ts";
import type { Stage } from "../page.test.ts";

/** Lines of the panel, and the column of the run's file that each shows. */
const shown = {
  "log-prob": "logprobs",
  ratio: "ratio",
  advantage: "advantage",
  reference: "reference",
  value: "value",
} as const;

/** What every run of the kind must have numbers of, or the comparison would be of nothing with nothing. */
const known = {
  grpo: ["log-prob", "ratio", "advantage", "reference"],
  ppo: ["log-prob", "ratio", "advantage", "value"],
  dapo: ["log-prob", "ratio", "advantage"],
  dpo: ["log-prob", "advantage", "reference"],
  sft: ["log-prob"],
} as const satisfies Record<string, readonly (keyof typeof shown)[]>;

export function tokens(stage: Stage): void {
  it.each(Object.keys(known) as (keyof typeof known)[])(
    "shows of every token of a %s run what was computed, to the last digit",
    async (run) => {
      const conversation = readTrajectories(`${stage.runs}/${run}`, 2)[0]!;
      const columns = conversation.chains[0]!.columns!;
      const page = await stage.site.open(`#/trajectory/${run}:2:0?all=1&special=1`);
      const learns = [...columns.tokens.keys()].filter((i) => columns.learn[i] === 1 && i > 0);
      const seen = new Set<string>();
      for (const [n, token] of learns.entries()) {
        await page.locator(`[data-token="${token}"]`).first().hover();
        const panel = page.locator(`.token-panel[data-shown="${token}"]`);
        for (const [name, column] of Object.entries(shown) as [
          keyof typeof shown,
          (typeof shown)[keyof typeof shown],
        ][]) {
          const text = await panel.locator(`[data-name="${name}"] dd`).textContent();
          const value = valueIn(columns, column, token, n);
          if (Number.isNaN(value)) expect(text, `${name} of token ${token}`).toBe("–");
          else {
            expect(Math.fround(Number(text!.replace("−", "-"))), `${name} of token ${token}`).toBe(value);
            seen.add(name);
          }
        }
      }
      expect([...seen]).toEqual(expect.arrayContaining([...known[run]]));
      await page.close();
    },
  );
}

function valueIn(
  columns: ChainTokens,
  name: (typeof shown)[keyof typeof shown],
  token: number,
  learnToken: number,
): number {
  return name === "logprobs" ? columns.logprobs[token]! : columns[name][learnToken]!;
}
