import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, it } from "vitest";
import { testCase } from "../src/view/trajectory/test-case.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const hostile = 'a "quote" `$' + "{1}` */ // \\ \n\u2028 \u202e <script>alert(1)</script> \ud800 \u0000";

it("makes a test case of a conversation that compiles against the package, whatever was said", () => {
  const said = testCase({
    run: hostile,
    step: 3,
    id: "s1-g0-m0",
    scenario: hostile,
    reward: 1 / 3,
    ended: "done",
    record: {
      messages: [
        { role: "user", content: hostile },
        {
          role: "assistant",
          content: "",
          reasoning: "hm",
          tool_calls: [{ id: "call1", type: "function", function: { name: "look", arguments: '{"a": 1}' } }],
        },
        { role: "tool", content: "{}", name: "look", tool_call_id: "call1" },
        { role: "assistant", content: "Done." },
      ],
    },
  });
  const lost = testCase({
    run: "r",
    step: 0,
    id: "x",
    scenario: null,
    reward: null,
    ended: null,
    record: { messages: [] },
  });
  expect(errorsIn({ "said.test.ts": said, "lost.test.ts": lost })).toEqual([]);
  expect(said).toContain("toBeCloseTo(0.3333333333333333)");
  expect(said).not.toMatch(/\u202e|\u2028/);
});

/** As somebody's own project would check them. */
function errorsIn(files: Record<string, string>): string[] {
  const { config } = ts.readConfigFile(`${root}tsconfig.json`, ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const pasted = new Map(Object.entries(files).map(([name, text]) => [`${root}${name}`, text]));
  const host = ts.createCompilerHost(options);
  const { readFile, fileExists } = host;
  host.readFile = (path) => pasted.get(path) ?? readFile(path);
  host.fileExists = (path) => pasted.has(path) || fileExists(path);
  const program = ts.createProgram([...pasted.keys()], options, host);
  return [...pasted.keys()].flatMap((path) =>
    ts
      .getPreEmitDiagnostics(program, program.getSourceFile(path))
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n")),
  );
}
