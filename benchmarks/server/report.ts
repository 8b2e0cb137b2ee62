/** What serving costs, in words and tables. */
import { type Roofline, rooflineText } from "../machine.ts";
import type { MachineRecord, Records } from "../results.ts";
import { type Measured, measures } from "./measures.ts";

export interface ServerRecord extends MachineRecord {
  roofline?: Roofline;
  results: Record<string, Measured & { date: string; load: { before: number; after: number } }>;
}

const number = (value: number) => (Math.abs(value) < 10 ? value.toFixed(2) : value.toFixed(1));

function aimOf(name: string, { most }: Measured): string {
  const aim = most === undefined ? measures[name]?.aim : { most };
  if (!aim) return "";
  return "least" in aim ? `≥ ${aim.least}` : `≤ ${number(aim.most)}`;
}

const partsText = (parts: Measured["parts"]) =>
  Object.entries(parts)
    .map(([name, value]) => `${name} ${number(value)}`)
    .join(", ");

const rangeText = ({ range }: Measured) => (range ? `${number(range[0])}–${number(range[1])}` : "");

export function row(name: string, result: Measured): string {
  const range = rangeText(result);
  return `${name.padEnd(20)} ${number(result.value).padStart(7)}${range && ` (${range})`}, aim ${aimOf(name, result)}: ${partsText(result.parts)}`;
}

/** docs/results/server.md. */
export function page(records: Records<ServerRecord>): string {
  const sections = Object.values(records).map(({ machine, roofline, results }) =>
    [
      `## ${machine}`,
      "",
      ...(roofline ? [`${rooflineText(roofline)}.`, ""] : []),
      "| measure | value | rounds | aim | made of | load, date |",
      "| --- | --: | --: | --: | --- | --- |",
      ...Object.entries(results).map(([name, result]) => {
        const { load, date } = result;
        const about = `${load.before.toFixed(1)} → ${load.after.toFixed(1)}, ${date}`;
        return `| \`${name}\` | ${number(result.value)} | ${rangeText(result)} | ${aimOf(name, result)} | ${partsText(result.parts)} | ${about} |`;
      }),
    ].join("\n"),
  );
  return [
    "# What serving costs",
    "",
    "<!-- Written by npm run bench:server: do not edit. -->",
    "",
    "The starter model (11.7 million parameters, f32), replies of 64 to 256 tokens that do not end by themselves, clients in a process of",
    "their own on the same machine. Both sides of a ratio were measured in one run, in turns; the value is the middle of the rounds.",
    "",
    ...Object.entries(measures).map(([name, { what }]) => `- \`${name}\`: ${what}.`),
    "",
    sections.join("\n\n"),
    "",
  ].join("\n");
}
