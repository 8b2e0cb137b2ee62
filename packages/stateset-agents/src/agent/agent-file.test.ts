import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { loadAgentFromCheckpoint } from "../run/load-agent.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { readAgentFile } from "./agent-file.ts";
import { MultiTurnAgent } from "./multi-turn-agent.ts";

describe("agent.json", () => {
  it("keeps what the agent is beside the model", async () => {
    const dir = temporaryFolder();
    const options = {
      systemPrompt: "Be kind.",
      sampling: { maxTokens: 12 },
      contextWindow: "truncate" as const,
      reasoning: true,
    };
    await new MultiTurnAgent({ ...options, policy: createTablePolicy() }).save(dir);
    expect(await readAgentFile(dir)).toMatchObject({
      systemPrompt: "Be kind.",
      sampling: { maxTokens: 12, temperature: 1 },
      contextWindow: { strategy: "truncate" },
      reasoning: true,
    });
    expect(JSON.parse(readFileSync(join(dir, "agent.json"), "utf8"))).toMatchObject({ version: 1 });
  });

  it("is refused with its path when it is damaged", async () => {
    const dir = temporaryFolder();
    writeFileSync(join(dir, "agent.json"), '{"version": 1, "systemPromt": "x"}');
    await expect(readAgentFile(dir)).rejects.toMatchObject({
      code: "CHECKPOINT_INVALID",
      message: expect.stringContaining('Did you mean "systemPrompt"?'),
    });
    writeFileSync(join(dir, "agent.json"), "{");
    await expect(readAgentFile(dir)).rejects.toMatchObject({ code: "CHECKPOINT_INVALID" });
  });

  it("has to be beside a model", async () => {
    const dir = temporaryFolder();
    await expect(loadAgentFromCheckpoint(dir)).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  });
});
