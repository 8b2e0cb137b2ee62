/** Keys are compared by timingSafeEqual alone: how long `===` takes says how much of a guess was right. */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const folder = fileURLToPath(new URL("./", import.meta.url));
const sources = (readdirSync(folder, { recursive: true }) as string[]).filter(
  (name) => name.endsWith(".ts") && !name.endsWith(".test.ts"),
);

/** What may stand on one side of a comparison here: nothing that a caller sent can be meant by it. */
const plain = /^(?:undefined|null|true|false|absent|"(?!sk-)[^"]*"|-?[\d_]+)$/;

/** Every comparison of two things of which neither is plain, and other ways to compare texts. */
function suspicious(source: string): string[] {
  const code = source.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "$1");
  const equalities = [...code.matchAll(/([\w.?!)\]"-]+)\s*([!=]==?)\s*(?=([\w."(-]+))/g)]
    .filter(([, left, , right]) => ![left!, right!].some((side) => plain.test(side)))
    // Ids are no secrets: they are shown, and find the key. Nor is when a file was written.
    .filter(([text, left]) => !/\bid$|^fileState$/.test(left!) || /token|secret|hash/i.test(text))
    .map(([text]) => text);
  const others = [
    ...code.matchAll(
      /Object\.is\(|\.localeCompare\(|\.equals\(|(?:token|secret|hash)\w*\.(?:includes|startsWith|endsWith|indexOf)\(|(?:tokens|secrets|hashes)\w*\.(?:includes|has|get|indexOf)\(/gi,
    ),
  ];
  return [...equalities, ...others.map(([text]) => text)];
}

it("no source of this folder compares a key but by timingSafeEqual", () => {
  expect(sources).toContain("token.ts");
  for (const name of sources) expect(suspicious(readFileSync(`${folder}${name}`, "utf8")), name).toEqual([]);
});

it("one place compares, in constant time", () => {
  const comparing = sources.filter((name) => readFileSync(`${folder}${name}`, "utf8").includes("timingSafeEqual("));
  expect(comparing).toEqual(["token.ts"]);
});

it.each([
  "if (token === stored) return true;",
  "return hashOf(token).toString('hex') === key.hash;",
  "return key.hash !== digest;",
  "return token == given;",
  'if (token === "sk-ss-1234") return caller;',
  "return hashOf(token).equals(hash);",
  "const known = tokens.includes(token);",
  "return hashes.has(hash);",
])("would notice: %s", (line) => {
  expect(suspicious(line)).not.toEqual([]);
});
