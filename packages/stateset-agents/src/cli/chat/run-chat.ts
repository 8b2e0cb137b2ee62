import { createInterface } from "node:readline";
import { messageOf, StatesetError } from "../../error.ts";
import { didYouMean } from "../../suggest.ts";
import { quantity } from "../../telemetry/format.ts";
import { CliExit, failureLines } from "../failure.ts";
import { type CliIo, colorsOf, isInteractive, print, printJson } from "../io.ts";
import { modelLabel } from "../model-label.ts";
import { type OpenAgentFlags, openAgent, withRoom } from "../open-agent.ts";
import { answer, type Speaker } from "./answer.ts";

export interface ChatFlags extends OpenAgentFlags {
  checkpoint?: string[];
  json?: boolean;
}

/** The `chat` command: one agent streams; two answer the same messages and are shown side by side. */
export async function runChat(flags: ChatFlags, io: CliIo): Promise<void> {
  const checkpoints: (string | undefined)[] = flags.checkpoint?.length ? flags.checkpoint : [undefined];
  if (checkpoints.length > 2) {
    throw new StatesetError("INVALID_OPTION", `chat shows one or two agents, not ${checkpoints.length}.`, {
      hint: "Give --checkpoint at most twice.",
    });
  }
  const speakers: Speaker[] = [];
  try {
    for (const checkpoint of checkpoints) {
      const agent = withRoom(await openAgent(checkpoint, flags, io));
      speakers.push({ name: checkpoint ?? modelLabel(agent.policy.model.name), agent, messages: [] });
    }
    await converse(speakers, flags, io);
  } finally {
    await Promise.allSettled(speakers.map(({ agent }) => agent.close()));
  }
}

/** What a line that begins with a slash does, by its first word. */
const commands = {
  "/help": "this list",
  "/reset": "start a new conversation",
  "/undo": "take back the last exchange",
  "/exit": "leave (also Ctrl-D, or Ctrl-C at the prompt)",
} as const;

async function converse(speakers: Speaker[], flags: ChatFlags, io: CliIo): Promise<void> {
  const colors = colorsOf(io);
  const interactive = isInteractive(io) && !flags.json;
  const lines = createInterface({ input: io.stdin, ...(interactive && { output: process.stdout, terminal: true }) });
  let stopReply: AbortController | undefined;
  let failed = 0;
  lines.on("SIGINT", () => {
    if (stopReply) stopReply.abort();
    else lines.close();
  });
  if (interactive) {
    for (const [i, { name, agent }] of speakers.entries()) {
      const { parameters, stub } = agent.policy.model;
      const label = speakers.length > 1 ? `${"ab"[i]}  ${name}` : name;
      print(io, `${colors.bold(label)}  ${colors.dim(stub ? "a stub" : `${quantity(parameters)} parameters`)}`);
    }
    print(io, colors.dim(Object.keys(commands).join("  ")), "");
  }
  const prompt = () => {
    if (!interactive) return;
    lines.setPrompt(colors.cyan("you ▸ "));
    lines.prompt();
  };
  try {
    prompt();
    for await (const line of lines) {
      const text = line.trim();
      const command = /^\/(?!\/)\S*/.exec(text)?.[0];
      if (command === "/exit" || command === "/quit") break;
      if (command !== undefined) obey(command, speakers, flags.json ? { ...io, stdout: io.stderr } : io);
      else if (text !== "") {
        stopReply = new AbortController();
        try {
          await answer(
            speakers,
            text.replace(/^\/\//, "/"),
            { ...flags, signal: stopReply.signal, live: interactive },
            io,
          );
        } catch (error) {
          // The conversation is what it was before: the next message may fit, or the next try succeed.
          failed++;
          if (flags.json) printJson(io, { message: text, error: jsonOf(error) });
          else
            io.stderr.write(
              failureLines(error, io)
                .map((one) => `${one}\n`)
                .join(""),
            );
        }
        stopReply = undefined;
      }
      prompt();
    }
  } finally {
    lines.close();
  }
  // A person has seen it; a script looks at the status.
  if (failed > 0 && !interactive) throw new CliExit(1);
}

function obey(command: string, speakers: Speaker[], io: CliIo): void {
  const colors = colorsOf(io);
  if (command === "/reset") {
    for (const speaker of speakers) speaker.messages = [];
    print(io, colors.dim("A new conversation."));
  } else if (command === "/undo") {
    const some = speakers.some(({ messages }) => messages.length > 0);
    for (const speaker of speakers) {
      const at = speaker.messages.findLastIndex(({ role }) => role === "user");
      speaker.messages = speaker.messages.slice(0, Math.max(0, at));
    }
    print(io, colors.dim(some ? "The last exchange is taken back." : "There is nothing to take back."));
  } else if (command === "/help")
    print(io, ...Object.entries(commands).map(([name, does]) => `${name.padEnd(8)}${colors.dim(does)}`));
  else {
    const hint = didYouMean(command, Object.keys(commands));
    io.stderr.write(
      `${colors.red("✗")} There is no ${command}. ${hint} A message that begins with / is sent by writing //.\n`,
    );
  }
}

function jsonOf(error: unknown): { code: string; message: string } {
  return { code: StatesetError.isInstance(error) ? error.code : "UNEXPECTED", message: messageOf(error) };
}
