import type { Agent } from "../../agent/agent.ts";
import { actionsOf } from "../../conversation/actions.ts";
import type { Message } from "../../conversation/message.ts";
import type { Turn } from "../../conversation/trajectory.ts";
import { hasCode } from "../../error.ts";
import { type CliIo, colorsOf, print, printJson } from "../io.ts";
import { sideBySide } from "./columns.ts";

export interface Speaker {
  name: string;
  agent: Agent;
  messages: Message[];
}

export interface AnswerOptions {
  signal: AbortSignal;
  seed?: number;
  json?: boolean;
  /** Whether what was written may be written over: on a terminal. */
  live: boolean;
}

/** Each speaker's reply to a message, shown as it comes. Rejects with nothing changed; a reply that was stopped counts as far as it came. */
export async function answer(speakers: Speaker[], text: string, options: AnswerOptions, io: CliIo): Promise<void> {
  const colors = colorsOf(io);
  const { signal, seed } = options;
  const asked = (speaker: Speaker): Message[] => [...speaker.messages, { role: "user", content: text }];
  const replies = speakers.map(() => "");
  const show = options.json ? undefined : speakers.length === 1 ? oneBelow(io) : columns(speakers, options.live, io);
  const turns: Turn[][] = speakers.map(() => []);
  /** Where the words of the turn under way begin. */
  const begun = speakers.map(() => 0);
  let stopped = false;
  const write = (i: number, piece: string) => {
    replies[i] += piece;
    show?.piece(piece, replies);
  };
  const speak = async (speaker: Speaker, i: number) => {
    // Another turn of the same conversation must not draw the same numbers.
    const onTurn = (turn: Turn) => {
      turns[i]!.push(turn);
      for (const line of actionsOf(turn))
        write(i, `${replies[i]!.endsWith("\n") || replies[i] === "" ? "" : "\n"}  ${line}\n`);
      begun[i] = replies[i]!.length;
    };
    const context = { signal, onTurn, ...(seed !== undefined && { seed: seed + speaker.messages.length }) };
    try {
      for await (const piece of speaker.agent.stream(asked(speaker), context)) write(i, piece);
    } catch (error) {
      if (!hasCode(error, "ABORTED") || !signal.aborted) throw error;
      stopped = true;
    }
  };
  const outcomes = await Promise.allSettled(speakers.map(speak));
  const failure = outcomes.find((outcome) => outcome.status === "rejected");
  show?.end(replies, failure ? colors.dim(" (failed)") : stopped ? colors.dim(" (stopped)") : "");
  if (failure) throw failure.reason;
  const said = turns.map((own, i): Turn[] => {
    if (own.at(-1)?.role === "assistant" && !own.at(-1)!.tool_calls) return own;
    return [...own, { role: "assistant", content: replies[i]!.slice(begun[i]) }];
  });
  if (options.json) {
    const all = speakers.map(({ name }, i) => {
      const acted = said[i]!.length > 1 && { turns: said[i]!.map(({ sampled: _, ...turn }) => turn) };
      return { agent: name, reply: said[i]!.at(-1)!.content, ...acted };
    });
    printJson(io, { message: text, replies: all });
  }
  speakers.forEach((speaker, i) => {
    speaker.messages = [...asked(speaker), ...said[i]!];
  });
}

interface Show {
  piece(piece: string, replies: readonly string[]): void;
  end(replies: readonly string[], mark: string): void;
}

function oneBelow(io: CliIo): Show {
  io.stdout.write(colorsOf(io).green("agent ▸ "));
  return {
    piece: (piece) => void io.stdout.write(piece),
    end: (_, mark) => void io.stdout.write(`${mark}\n\n`),
  };
}

/** Two columns that grow; where nothing can be written over, they are written once, whole. */
function columns(speakers: readonly Speaker[], live: boolean, io: CliIo): Show {
  const colors = colorsOf(io);
  let drawn = 0;
  const render = (replies: readonly string[]) =>
    sideBySide(
      speakers.map(({ name }) => name),
      replies,
      io.stdout.columns || 80,
      colors,
    );
  const draw = (lines: readonly string[]) => {
    if (drawn > 0) io.stdout.write(`\u001b[${drawn}A\u001b[0J`);
    print(io, ...lines);
    drawn = lines.length;
  };
  return {
    piece(_, replies) {
      // What has scrolled off the screen cannot be written over: while it grows, its end is shown.
      if (live) draw(render(replies).slice(-Math.max(2, (io.stdout.rows || 24) - 2)));
    },
    end(replies, mark) {
      draw([...render(replies), ...(mark === "" ? [] : [mark.trim()])]);
      print(io, "");
    },
  };
}
