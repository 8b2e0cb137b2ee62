import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { resolveAgentOptions } from "../agent/agent-options.ts";
import type { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { openPolicy } from "../policy/open-policy.ts";
import { buildParts } from "./build-project.ts";
import { loadProject } from "./load-project.ts";
import { type EngineFlags, onEngine } from "./on-engine.ts";

describe("onEngine()", () => {
  it("leaves what is configured where no flag says otherwise", () => {
    const own = { engine: "torch", torch: { gpus: 4, dtype: "bf16" }, threads: 2 } as const;
    expect(onEngine(own, {})).toEqual(own);
    expect(onEngine({}, {})).toEqual({});
    expect(onEngine(own, { gpus: 8, threads: 3 })).toEqual({
      engine: "torch",
      torch: { gpus: 8, dtype: "bf16" },
      threads: 3,
    });
  });

  it("keeps of the configured options those that mean something to another engine", () => {
    const own = { engine: "torch", torch: { gpus: 4, device: "cuda", dtype: "bf16", deadlineSeconds: 60 } } as const;
    expect(onEngine(own, { engine: "torch://gpu-1:29600" })).toEqual({
      engine: "torch://gpu-1:29600",
      torch: { dtype: "bf16", deadlineSeconds: 60 },
    });
    // Also that nothing of it is left.
    expect(onEngine(own, { engine: "native" })).toStrictEqual({
      engine: "native",
      torch: undefined,
      threads: undefined,
    });
    expect(onEngine({ threads: 2 }, { engine: "torch" }).threads).toBeUndefined();
    expect(onEngine({ threads: 2 }, { engine: "native" }).threads).toBe(2);
    const away = {
      engine: "torch",
      torch: { url: "torch://gpu-1:29600", tls: { ca: "ca.pem" }, dtype: "f32" },
    } as const;
    expect(onEngine(away, { engine: "torch", gpus: 2 })).toEqual({ engine: "torch", torch: { gpus: 2, dtype: "f32" } });
  });

  it("takes 0 GPUs for the processor", () => {
    expect(onEngine({}, { engine: "torch", gpus: 0 })).toEqual({ engine: "torch", torch: { device: "cpu" } });
    const own = { engine: "torch", torch: { gpus: 2, device: "cpu" } } as const;
    expect(onEngine(own, { gpus: 1 }).torch).toEqual({ gpus: 1 });
  });

  it.each([
    [{}, { gpus: 2 }, false, /torch engine.*Add --engine torch/],
    [{ engine: "native" }, { gpus: 2 }, false, /Add --engine torch/],
    [{}, { engine: "torch://a:1", gpus: 2 }, false, /started here.*those it was started with/],
    [{ engine: "torch", torch: { url: "torch://a:1" } }, { gpus: 2 }, false, /started here/],
    [{}, { engine: "torch" }, true, /--stub plays scripted replies/],
  ] as const)("refuses %j with %j (stub: %s)", (own, flags, stub, message) => {
    expect(() => onEngine(own, flags, stub)).toThrow(message);
  });
});

it("reads the torch engine from a configuration, with paths beside it", async () => {
  const dir = temporaryFolder();
  const torch = "torch: { gpus: 8, python: bin/python, log_dir: logs, tls: { ca: ca.pem }, deadline_seconds: 60 }";
  writeFileSync(join(dir, "stateset.config.yaml"), `agent: { model: some/model, engine: torch, ${torch} }\n`);
  const optionsWith = async (flags: EngineFlags) => {
    const { agent } = await buildParts(await loadProject(join(dir, "stateset.config.yaml"), "/"), flags);
    return (agent as MultiTurnAgent).options;
  };
  const { engine, torch: read } = await optionsWith({});
  const beside = { python: join(dir, "bin/python"), logDir: join(dir, "logs"), tls: { ca: join(dir, "ca.pem") } };
  expect(engine).toBe("torch");
  expect(read).toEqual({ gpus: 8, deadlineSeconds: 60, ...beside });
  expect((await optionsWith({ engine: "torch://gpu-1:29600" })).torch).toEqual({
    ...{ url: "torch://gpu-1:29600", deadlineSeconds: 60 },
    ...{ logDir: beside.logDir, tls: beside.tls },
  });
});

describe('engine: "torch://host:port"', () => {
  it("is the torch engine at that address, for agents and policies", async () => {
    const { engine, torch } = resolveAgentOptions({ engine: "torch://gpu-1:29600", torch: { dtype: "f32" } });
    expect({ engine, torch }).toEqual({ engine: "torch", torch: { url: "torch://gpu-1:29600", dtype: "f32" } });
    await expect(openPolicy({ engine: "torch://gpu-1" })).rejects.toThrow(/It lacks the port|wants a token/);
  });

  it("cannot be two addresses", async () => {
    const both = { engine: "torch://a:1", torch: { url: "torch://b:1" } } as const;
    await expect(openPolicy(both)).rejects.toThrow(/engine is torch:\/\/a:1, and torch\.url is torch:\/\/b:1/);
  });
});
