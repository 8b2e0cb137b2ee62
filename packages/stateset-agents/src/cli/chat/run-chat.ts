import { createInterface } from "node:readline";
import type { Agent } from "../../agent/agent.ts";
import type { Message } from "../../conversation/message.ts";
import { StatesetError } from "../../error.ts";
import { quantity } from "../../telemetry/format.ts";
import { type CliIo, colorsOf, isInteractive, print, printJson } from "../io.ts";
import { modelLabel } from "../model-label.ts";
import { type OpenAgentFlags, openAgent } from "../open-agent.ts";
import { sideBySide } from "./columns.ts";

export interface ChatFlags extends OpenAgentFlags {
  checkpoint?: string[];
  json?: boolean;
}

interface Speaker {
  name: string;
  agent: Agent;
  messages: Message[];
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
      const agent = await openAgent(checkpoint, flags, io);
      speakers.push({ name: checkpoint ?? modelLabel(agent.policy.model.name), agent, messages: [] });
    }
    await converse(speakers, flags, io);
  } finally {
    await Promise.allSettled(speakers.map(({ agent }) => agent.close()));
  }
}

async function converse(speakers: Speaker[], flags: ChatFlags, io: CliIo): Promise<void> {
  const colors = colorsOf(io);
  const interactive = isInteractive(io) && !flags.json;
  const lines = createInterface({ input: io.stdin, ...(interactive && { output: process.stdout, terminal: true }) });
  let stopReply: AbortController | undefined;
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
    print(io, colors.dim("/reset  /undo  /exit"), "");
  }
  const prompt = () => {
    if (!interactive) return;
    lines.setPrompt(colors.cyan("you ▸ "));
    lines.prompt();
  };
  prompt();
  for await (const line of lines) {
    const text = line.trim();
    if (text === "/exit" || text === "/quit") break;
    if (text === "/reset") for (const speaker of speakers) speaker.messages = [];
    else if (text === "/undo") for (const speaker of speakers) speaker.messages.splice(-2);
    else if (text !== "") {
      stopReply = new AbortController();
      await answer(speakers, text, flags, io, stopReply.signal);
      stopReply = undefined;
    }
    prompt();
  }
  lines.close();
}

async function answer(
  speakers: Speaker[],
  text: string,
  flags: ChatFlags,
  io: CliIo,
  signal: AbortSignal,
): Promise<void> {
  const colors = colorsOf(io);
  const context = (speaker: Speaker) => ({
    signal,
    // Another turn of the same conversation must not draw the same numbers.
    ...(flags.seed !== undefined && { seed: flags.seed + speaker.messages.length }),
  });
  const asked = (speaker: Speaker): Message[] => [...speaker.messages, { role: "user", content: text }];
  const replies: string[] = [];
  const [only] = speakers;
  if (speakers.length === 1 && !flags.json) {
    let reply = "";
    io.stdout.write(colors.green("agent ▸ "));
    try {
      for await (const piece of only!.agent.stream(asked(only!), context(only!))) {
        reply += piece;
        io.stdout.write(piece);
      }
    } catch (error) {
      if (!(StatesetError.isInstance(error) && error.code === "ABORTED")) throw error;
      io.stdout.write(colors.dim(" (stopped)"));
    }
    io.stdout.write("\n\n");
    replies.push(reply);
  } else {
    for (const speaker of speakers)
      replies.push(await speaker.agent.generateResponse(asked(speaker), context(speaker)));
    if (flags.json)
      printJson(io, { message: text, replies: speakers.map(({ name }, i) => ({ agent: name, reply: replies[i] })) });
    else
      print(
        io,
        ...sideBySide(
          speakers.map(({ name }) => name),
          replies,
          io.stdout.columns ?? 80,
          colors,
        ),
        "",
      );
  }
  speakers.forEach((speaker, i) => {
    speaker.messages = [...asked(speaker), { role: "assistant", content: replies[i]! }];
  });
}
