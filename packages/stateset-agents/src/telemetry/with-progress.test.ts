import { afterEach, describe, expect, it, vi } from "vitest";
import { tableLearner, tableLearners } from "../test-support/table-learners.ts";
import { tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { train } from "../training/train.ts";

afterEach(() => void vi.restoreAllMocks());

/** What a run writes to stderr and stdout, which are no terminals in a test. */
async function written(work: () => Promise<unknown>): Promise<{ stderr: string; stdout: string }> {
  const said = { stderr: "", stdout: "" };
  for (const name of ["stderr", "stdout"] as const) {
    vi.spyOn(process[name], "write").mockImplementation((text) => {
      said[name] += text;
      return true;
    });
  }
  await work().finally(() => vi.restoreAllMocks());
  return said;
}

describe("progress: true", () => {
  it.each(tableLearners)("shows on stderr how it goes, whatever learns (%s)", async (kind) => {
    const { run, steps } = tableLearner(kind);
    const { stderr, stdout } = await written(() => run({ dir: false, progress: true }));
    expect(stderr).toMatch(new RegExp(`^step ${steps}/${steps} {2}`, "m"));
    expect(stderr).toMatch(/^finished after/m);
    expect(stdout).toBe("");
  });

  it("is left out by default, and callbacks are told beside it", async () => {
    const silent = await written(() => tableLearner("sft").run({ dir: false }));
    expect(silent.stderr).toBe("");
    const told: number[] = [];
    await written(() =>
      tableLearner("sft").run({
        dir: false,
        progress: true,
        callbacks: { onStepEnd: ({ step }) => void told.push(step) },
      }),
    );
    expect(told.length).toBeGreaterThan(1);
  });

  it("is refused when it is anything but true or false", async () => {
    const { agent } = tableAgent();
    await expect(train({ agent, environment: tableEnvironment(), steps: 1, progress: "yes" as never })).rejects.toThrow(
      'The option "progress" of train() is true or false.',
    );
  });
});
