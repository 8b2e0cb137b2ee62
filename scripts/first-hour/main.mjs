/**
 * `npm run first-hour [folder [part]]`: a new user's first hour, played from the packed tarballs as a user would type it. It ends at the first
 * thing that is not as it should be; in a folder that was named it can go on from a part (init, train, chat …). With STATESET_PYTHON the
 * exported model is also loaded by transformers, and its greedy reply compared.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { title, type } from "./shell.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const [given, from = "install"] = process.argv.slice(2);
const work = given ? resolve(given) : mkdtempSync(join(tmpdir(), "first-hour-"));
const app = join(work, "app");
const shop = join(app, "shop");
mkdirSync(app, { recursive: true });

const parts = {
  ...{ install, example: pasteTheExample, init: makeAProject, train: trainStopAndGoOn, chat: chatPastTheContext },
  ...{ evaluate: compareCheckpoints, learn: threeWaysOnOneAdapter, export: exportAndLoadElsewhere },
};
const names = Object.keys(parts);
for (const name of names.slice(names.indexOf(from))) await parts[name]();
console.log("The first hour went as it should.");
if (!given) rmSync(work, { recursive: true, force: true });

async function install() {
  title("Install the packed packages");
  const tarballs = join(work, "tarballs");
  execFileSync("node", [join(root, "scripts/pack.mjs"), tarballs], { stdio: ["ignore", "ignore", "inherit"] });
  await type("npm init -y", { cwd: app });
  const files = readdirSync(tarballs).map((name) => join(tarballs, name));
  await type(`npm install --prefer-offline ${files.join(" ")}`, { cwd: app });
}

async function pasteTheExample() {
  title("Paste the README's example");
  const example = readFileSync(join(root, "README.md"), "utf8").match(/```ts\n([\s\S]*?)\n```/)[1];
  writeFileSync(join(app, "example.mjs"), example);
  await type("node example.mjs", { cwd: app, expect: [/\S/] });
}

async function makeAProject() {
  title("init, install, edit");
  await type("npx stateset-agents init shop --template support --yes", { cwd: app });
  await type("npm install --prefer-offline", { cwd: shop });
  const file = join(shop, "stateset.config.ts");
  const before = readFileSync(file, "utf8");
  const after = before
    .replace(/steps: \d+/, "steps: 8")
    .replace("training: {", "training: {\n    checkpoint: { every: 2 },");
  if (after === before) throw new Error("The configuration that init wrote has no steps to edit.");
  writeFileSync(file, after);
  await type("npx stateset-agents train --dry-run", { cwd: shop, expect: [/fits in/] });
}

async function trainStopAndGoOn() {
  title("Train, press Ctrl-C, go on");
  const stopped = await type("npx stateset-agents train --name first", {
    cwd: shop,
    interruptAt: /step 5\b/,
    status: 130,
    expect: [/Stopped after step \d+ and saved/],
  });
  const [next] = stopped.match(/npx stateset-agents train --resume \S+/);
  await type(next, { cwd: shop });
  await type("npx stateset-agents runs list", { cwd: shop, expect: [/first.*finished/] });
}

async function chatPastTheContext() {
  title("Chat, and say more than fits");
  const long = "Where is my order? ".repeat(2000).trim();
  await type("npx stateset-agents chat --checkpoint first", {
    cwd: shop,
    input: `Hello\n${long}\nWhere is my order?\n/help\n/exit\n`,
    status: 1,
    expect: [/does not fit|too long/, /\/undo/],
  });
}

async function compareCheckpoints() {
  title("Evaluate two checkpoints of one run");
  await type(
    "npx stateset-agents evaluate --scenarios --samples 1 --checkpoint runs/first/checkpoints/step-000006 --compare runs/first/checkpoints/last",
    { cwd: shop },
  );
}

async function threeWaysOnOneAdapter() {
  title("sft, then dpo, then train, on one LoRA adapter");
  const ask = [
    "Where is my order?",
    "My card was charged twice.",
    "The lamp I got is broken.",
    "How do I return shoes?",
  ];
  const good = "Thank you for telling us. May I have your order number, please?";
  const lines = (items) => `${items.map((item) => JSON.stringify(item)).join("\n")}\n`;
  writeFileSync(join(shop, "chats.jsonl"), lines(ask.map((prompt) => ({ prompt, completion: good }))));
  writeFileSync(join(shop, "pairs.jsonl"), lines(ask.map((prompt) => ({ prompt, chosen: good, rejected: "No." }))));
  const cwd = shop;
  await type("npx stateset-agents sft --data chats.jsonl --lora 8 --epochs 2 --name taught", { cwd });
  await type("npx stateset-agents dpo --data pairs.jsonl --checkpoint taught --epochs 2 --name preferred", { cwd });
  await type("npx stateset-agents train --checkpoint preferred --steps 2 --name reinforced", { cwd });
}

async function exportAndLoadElsewhere() {
  title("Export it as one model, and load it in transformers");
  await type("npx stateset-agents export --merge reinforced merged", { cwd: shop });
  const ask = "Where is my order?";
  const said = await type(
    `npx stateset-agents evaluate --checkpoint ./merged --message "${ask}" --temperature 0 --max-tokens 16 --json`,
    { cwd: shop },
  );
  const python = process.env.STATESET_PYTHON;
  if (!python) {
    console.log("STATESET_PYTHON is not set: transformers is not tried.");
    return;
  }
  const { messages, reply } = JSON.parse(said.trim().split("\n").at(-1));
  writeFileSync(join(shop, "messages.json"), JSON.stringify(messages));
  const theirs = await type(`${python} ${join(root, "scripts/first-hour/greedy_reply.py")}`, { cwd: shop });
  if (theirs.trim().split("\n").at(-1) !== JSON.stringify(reply)) {
    throw new Error(`transformers replies ${theirs.trim()}, we reply ${JSON.stringify(reply)}.`);
  }
}
