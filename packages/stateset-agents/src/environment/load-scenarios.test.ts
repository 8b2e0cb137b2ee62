import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import type { SkippedLines } from "../conversation/read-entries.ts";
import { loadScenarios, loadTasks } from "./load-scenarios.ts";

const dir = temporaryFolder();
const file = (name: string, text: string) => {
  const path = join(dir, name);
  writeFileSync(path, text);
  return path;
};

describe("loadScenarios", () => {
  const expected = [
    { id: "a", topic: "orders", userResponses: ["Hi", "Bye"] },
    { id: "scenario-2", userResponses: ["Hello"] },
  ];

  it.each([
    ["s.jsonl", '{"id":"a","topic":"orders","user_responses":["Hi","Bye"]}\n\n{"userResponses":["Hello"]}\n'],
    [
      "s.json",
      '{"scenarios": [{"id":"a","topic":"orders","userResponses":["Hi","Bye"]},{"user_responses":["Hello"]}]}',
    ],
    ["s.yaml", "- id: a\n  topic: orders\n  user_responses: [Hi, Bye]\n- userResponses:\n    - Hello\n"],
  ])("reads %s", async (name, text) => {
    expect(await loadScenarios(file(name, text))).toEqual(expected);
  });

  it.each([
    [
      "a.jsonl",
      '{"userResponses":["x"]}\n\n{"id":"bad","userResponses":[]}\n',
      'line 3: scenario 2 ("bad") has no user turn',
    ],
    ["b.jsonl", '{"userResponses":["x"]}\nnonsense\n', "line 2: not valid JSON"],
    ["c.yaml", "- id: a\n  userResponses: [x]\n- id: b\n  userRespones: [x]\n", 'userRespones" in '],
    ["d.yaml", "- id: a\n  userResponses: [x]\n- id: b\n  userRespones: [x]\n", "line 3"],
    [
      "e.json",
      '[\n  {"id": "a", "userResponses": ["x"]},\n  {"id": "a", "userResponses": ["y"]}\n]',
      'line 3 has the id "a", which',
    ],
    ["f.json", '[\n  {"id": "a"\n', "f.json, line "],
    ["g.yaml", "hello", "expected a list"],
    ["h.jsonl", "", "holds no scenarios"],
    ["i.txt", "x", "not a scenario file"],
  ])("says where %s is wrong", async (name, text, message) => {
    const path = file(name, text);
    await expect(loadScenarios(path)).rejects.toThrow(message);
    await expect(loadScenarios(path)).rejects.toThrow(path);
  });

  it("says when there is no such file", async () => {
    await expect(loadScenarios(join(dir, "absent.yaml"))).rejects.toMatchObject({ code: "INVALID_DATA" });
  });
});

describe("loadTasks", () => {
  const good = '{"id": "a", "goal": "2 + 2?", "expected": "4"}';
  const bad = '{"id": "b", "goal": 5}';

  it.each([
    ["t.jsonl", `${good}\n${bad}\n`],
    ["t.json", `{"tasks": [${good},\n${bad}]}`],
    ["t.yaml", `tasks:\n- ${good}\n- ${bad}\n`.replace("tasks:\n", "tasks:\n\n")],
  ])("reads %s, says where it is wrong, and can leave that out", async (name, text) => {
    const path = file(name, text);
    const line = name === "t.yaml" ? 4 : 2;
    const problem = `${path}, line ${line}: task 2.goal`;
    await expect(loadTasks(path)).rejects.toThrow(problem);
    const skipped: SkippedLines[] = [];
    const options = { skipBad: true, onSkipped: (one: SkippedLines) => skipped.push(one) };
    expect(await loadTasks(path, options)).toEqual([{ id: "a", goal: "2 + 2?", expected: "4" }]);
    expect(skipped).toMatchObject([{ path, skipped: 1, of: 2, problems: [expect.stringContaining(problem)] }]);
  });

  it("refuses what holds none, two of a name, and files of another kind", async () => {
    await expect(loadTasks(file("none.jsonl", ""))).rejects.toThrow("none.jsonl holds no tasks");
    await expect(loadTasks(file("two.jsonl", `${good}\n${good}`))).rejects.toThrow('line 2 has the id "a", which');
    await expect(loadTasks(file("s.json", '{"scenarios": []}'))).rejects.toThrow("expected a list of tasks");
    await expect(loadTasks(file("t.txt", good))).rejects.toThrow("t.txt is not a task file");
  });
});
