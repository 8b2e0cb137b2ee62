/** The live view as lines that fit a terminal: 60 columns are enough, and from 120 on a conversation stands beside the numbers. */
import type { Colors } from "picocolors/types";
import { turnLines } from "../conversation/actions.ts";
import { printable } from "../printable.ts";
import { beside, flow, wrap } from "./columns.ts";
import { clip, duration, number, padEnd, percent, quantity, sparkline, width } from "./format.ts";
import { endsOf, type ViewState } from "./view-state.ts";
import { atStep, changedSettings, distance, evaluationText, nameLine } from "./view-texts.ts";

export interface ViewFrame {
  columns: number;
  /** Undefined: as many as it takes. */
  rows: number | undefined;
  nowMs: number;
  colors: Colors;
  title: string | undefined;
}

const labelColumns = 9;
/** From how many columns on two blocks stand side by side. */
const wideColumns = 120;
const separator = " │ ";

export function viewLines(state: ViewState, frame: ViewFrame): string[] {
  const { columns, rows, colors } = frame;
  if (!state.run) return [];
  const head = ["", nameLine(state.run, frame.title, colors), ...settingsLines(state, frame), ""];
  const left = columns < wideColumns ? columns : Math.min(130, Math.floor(columns * 0.6));
  const numbers = numberLines(state, { ...frame, columns: left });
  const body =
    left === columns || !state.sample
      ? [...numbers, ...lastExchange(state, frame)]
      : beside(
          numbers,
          wholeConversation(state, columns - left - separator.length, Math.max(8, numbers.length), colors),
          left,
          colors.dim(separator),
        );
  const lines = [...head, ...body].map((line) => clip(line, columns));
  // A line that has left the screen at its top could not be drawn again.
  return rows === undefined ? lines : lines.slice(0, Math.max(1, rows - 1));
}

const labelled = (name: string, { colors }: ViewFrame) => colors.dim(padEnd(name, labelColumns));

const fact = (name: string, value: string, { colors }: ViewFrame) => `${colors.dim(name)} ${value}`;

function settingsLines({ run }: ViewState, { columns, colors }: ViewFrame): string[] {
  const changed = changedSettings(run!);
  if (changed.length === 0) return [];
  return flow(`${colors.dim("set")}  `, changed, { columns, gap: colors.dim(" · "), most: 2 });
}

function numberLines(state: ViewState, frame: ViewFrame): string[] {
  return [
    stepLine(state, frame),
    ...nowLines(state, frame),
    ...courseLines(state, frame),
    ...learningLines(state, frame),
    ...failedLines(state, frame),
    ...heldOutLines(state, frame),
    ...healthLines(state, frame),
  ];
}

/** How many steps are done, and when all will be. */
function stepLine(state: ViewState, frame: ViewFrame): string {
  const { colors, columns } = frame;
  const step = state.latest?.step ?? state.stepsBefore;
  const total = state.run!.steps;
  const etaMs = state.etaMs(frame.nowMs);
  const before = `${labelled("step", frame)}${colors.bold(`${step}/${total}`)}  `;
  const after = `  ${percent(step / total)}${etaMs === undefined ? "" : `   ${fact("eta", duration(etaMs), frame)}`}`;
  // Room is kept for the longest time, so that the bar does not change its length.
  const room = Math.max(6, columns - width(before) - 22);
  const filled = Math.round((step / total) * room);
  return `${before}${colors.cyan("━".repeat(filled))}${colors.dim("─".repeat(room - filled))}${after}`;
}

/** What is being done, how far it is, and for how long. */
function nowLines({ now, latest, stepsBefore, perStepMs }: ViewState, frame: ViewFrame): string[] {
  const { colors, columns, nowMs } = frame;
  if (!now) return [];
  const within = now.step > (latest?.step ?? stepsBefore);
  const of = within ? `step ${now.step}: ` : "";
  const usual = within && perStepMs !== undefined ? colors.dim(` of ~${duration(perStepMs)}`) : "";
  const parts = [
    `${of}${colors.bold(now.phase)}`,
    now.of === undefined ? undefined : `${now.done} of ${now.of} ${colors.dim("conversations")}`,
    now.tokens ? `${quantity(now.tokens)} ${colors.dim("tokens")}` : undefined,
    `${duration(nowMs - now.sinceMs)}${usual}`,
  ].filter((part) => part !== undefined);
  return flow(labelled("now", frame), parts, { columns, gap: "  ", most: 2 });
}

/** The number that matters, its course over the whole run, and how far it has come. */
function courseLines(state: ViewState, frame: ViewFrame): string[] {
  const { rewards, losses, latest } = state;
  if (rewards.length > 0) {
    const std = latest?.metrics.rewardStd;
    return [courseLine("reward", rewards, 1, std === undefined ? "" : ` ± ${number(std)}`, frame)];
  }
  return losses.length > 0 ? [courseLine("loss", losses, -1, "", frame)] : [];
}

/** A loss is better the lower it is. */
function courseLine(name: string, values: readonly number[], better: 1 | -1, spread: string, frame: ViewFrame): string {
  const { colors, columns } = frame;
  const before = `${labelled(name, frame)}${colors.bold(number(values.at(-1)!))}${spread}  `;
  const ends = endsOf(values);
  const gain = ends && ends.last - ends.first;
  const since = columns >= 90 ? colors.dim(" (last ¼ − first ¼)") : "";
  const change =
    gain === undefined
      ? ""
      : `  ${(gain * better >= 0 ? colors.green : colors.red)(`${gain < 0 ? "" : "+"}${number(gain)}`)}${since}`;
  const room = Math.max(8, columns - width(before) - width(change));
  return `${before}${colors.cyan(sparkline(values, room))}${change}`;
}

function learningLines(state: ViewState, frame: ViewFrame): string[] {
  const { latest, rolloutMs, updateMs } = state;
  if (!latest) return [];
  const { columns } = frame;
  const { metrics, timing } = latest;
  const spacious = columns >= 110;
  const stated = (name: string, value: number | undefined, show = number): string[] =>
    value === undefined ? [] : [fact(name, show(value), frame)];
  const learning = [
    ...distance(metrics).map(([name, value]) => fact(name, value, frame)),
    ...stated("entropy", metrics.entropy),
    ...stated("clip", metrics.clipFraction, percent),
    ...stated("mismatch", metrics.mismatch),
    ...stated("grad", metrics.gradNorm),
    ...stated("reply", metrics.replyTokens, (tokens) => `${tokens.toFixed(1)} tokens`),
    ...(spacious ? stated("groups alike", metrics.constantGroups, percent) : []),
    ...(spacious ? stated("rate", metrics.learningRate) : []),
  ];
  const total = Math.max(1, rolloutMs + updateMs);
  const speed = [
    `${quantity(timing.tokensPerSecond)} tokens/s`,
    ...(rolloutMs === 0
      ? []
      : [fact("rollout", percent(rolloutMs / total), frame), fact("update", percent(updateMs / total), frame)]),
    ...stated("reused", timing.reused, percent),
    ...(spacious && timing.rolloutMs + timing.updateMs >= 1000
      ? [fact("last step", duration(timing.rolloutMs + timing.updateMs), frame)]
      : []),
  ];
  return [
    ...(learning.length === 0 ? [] : flow(labelled("learning", frame), learning, { columns, gap: "   " })),
    ...flow(labelled("speed", frame), speed, { columns, gap: "   " }),
  ];
}

function failedLines({ failed: { environment, reward }, conversations }: ViewState, frame: ViewFrame): string[] {
  const { colors } = frame;
  if (conversations === 0) return [];
  const lost = environment + reward;
  const text = `${lost} of ${conversations}`;
  const shown = lost === 0 ? text : colors.yellow(`${text} (environment ${environment}, reward ${reward})`);
  return [`${labelled("failed", frame)}${shown}${colors.dim(" rollouts")}`];
}

function heldOutLines({ evaluations, before }: ViewState, frame: ViewFrame): string[] {
  const { columns, colors } = frame;
  return [...evaluations.values()].flatMap((evaluation) => {
    const set = evaluation.set === "held-out" ? "" : padEnd(evaluation.set, 10);
    const parts = [`${set}${evaluationText(evaluation, before)}`, colors.dim(atStep(evaluation))];
    return flow(labelled("held-out", frame), parts, { columns, gap: " " });
  });
}

function healthLines({ verdicts }: ViewState, frame: ViewFrame): string[] {
  const verdict = verdicts.at(-1);
  if (!verdict) return [];
  const { colors } = frame;
  return [`${labelled("health", frame)}${colors.yellow(verdict.kind)} ${colors.dim(`since step ${verdict.step}`)}`];
}

/** Which conversation is shown. */
function sampleFacts({ sample }: ViewState): string {
  const { step, scenarioId, reward } = sample!;
  return `${printable(scenarioId)} · reward ${number(reward)} · first conversation of step ${step}`;
}

/** The last thing that was said to the agent, and its reply in at most two lines. */
function lastExchange(state: ViewState, frame: ViewFrame): string[] {
  const { columns, colors } = frame;
  const { sample } = state;
  const at = sample?.turns.findLastIndex(({ role }) => role === "assistant") ?? -1;
  if (!sample || at < 0) return [];
  const room = columns - labelColumns;
  const reply = wrap(printable(sample.turns[at]!.content), room);
  const shown = reply.length <= 2 ? reply : [reply[0]!, clip(reply.slice(1).join(" "), room)];
  const said = sample.turns[at - 1];
  return [
    "",
    `${labelled("sample", frame)}${colors.dim(sampleFacts(state))}`,
    ...(said ? [`${labelled(`  ${said.role}`, frame)}${colors.dim(clip(printable(said.content), room))}`] : []),
    ...shown.map((line, i) => `${labelled(i === 0 ? "  agent" : "", frame)}${line}`),
  ];
}

/** All that was said, as far as there is room. */
function wholeConversation(state: ViewState, columns: number, rows: number, colors: Colors): string[] {
  const turns = state.sample!.turns.filter(({ role }) => role !== "system");
  const lines = turns.flatMap((turn) => {
    const agent = turn.role === "assistant";
    const said = turnLines(turn, agent ? "agent" : turn.role).flatMap((line) => wrap(printable(line), columns));
    return agent ? said : said.map((line) => colors.dim(line));
  });
  const shown = lines.length < rows ? lines : [...lines.slice(0, rows - 2), colors.dim("…")];
  return [colors.dim(clip(sampleFacts(state), columns)), ...shown];
}
