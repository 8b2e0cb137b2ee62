/** What people say of runs: tags, a note, whether one is put away. */
import type { Command } from "commander";
import { printable } from "../../printable.ts";
import { type RunNotes, readNotes, writeNotes } from "../../run/notes.ts";
import type { RunInfo } from "../../run/read-run.ts";
import { type CliIo, colorsOf, print, printJson } from "../io.ts";

interface NoteOptions {
  dir: string;
  json?: boolean;
}

/** `add` makes a command of `runs`, `find` the run it names. */
export function addNotes(
  io: CliIo,
  add: (name: string, description: string) => Command,
  find: (name: string, options: NoteOptions) => RunInfo,
): void {
  const theRun = 'a run\'s name or folder, or "last"';
  add("tag", "Give a run tags, by which lists can be read.")
    .argument("<run>", theRun)
    .argument("<tag...>", "words of up to 50 characters")
    .option("--remove", "take these away instead")
    .action((name: string, tags: string[], options: NoteOptions & { remove?: boolean }) => {
      const { dir, id } = find(name, options);
      const before = readNotes(dir).tags;
      const named = tags.map((tag) => tag.trim());
      const kept = options.remove ? before.filter((tag) => !named.includes(tag)) : [...before, ...named];
      const notes = writeNotes(dir, { tags: kept });
      said(io, id, notes, options, `${id} has ${notes.tags.length === 0 ? "no tags" : `the tags ${tagsText(notes)}`}.`);
    });
  add("note", "Write down what is to be known of a run, in place of what was.")
    .argument("<run>", theRun)
    .argument("<text>", "the note; - reads it from standard input, an empty one removes it")
    .action(async (name: string, text: string, options: NoteOptions) => {
      const { dir, id } = find(name, options);
      const note = text === "-" ? (await readAll(io)).trimEnd() : text;
      const notes = writeNotes(dir, { note });
      said(io, id, notes, options, notes.note === "" ? `${id} has no note.` : `${id} has a note.`);
    });
  add("archive", "Put a run away: nothing is removed, and lists leave it out.")
    .argument("<run>", theRun)
    .option("--undo", "take it out again")
    .action((name: string, options: NoteOptions & { undo?: boolean }) => {
      const { dir, id } = find(name, options);
      const notes = writeNotes(dir, { archived: options.undo !== true });
      const what = notes.archived ? "is put away; `runs list --all` shows it" : "is in lists again";
      said(io, id, notes, options, `${id} ${what}.`);
    });
}

function said(io: CliIo, run: string, notes: RunNotes, { json }: NoteOptions, text: string): void {
  if (json) printJson(io, { run, ...notesJson(notes) });
  else print(io, text);
}

/** As commands print it. */
export function notesJson({ tags, note, archived, changedAt }: RunNotes) {
  return { tags, note, archived, notesChangedAt: changedAt === 0 ? null : new Date(changedAt).toISOString() };
}

export function tagsText({ tags }: Pick<RunNotes, "tags">): string {
  return tags.map(printable).join(", ");
}

/** For `runs show`. */
export function printNotes(io: CliIo, dir: string): void {
  const colors = colorsOf(io);
  const notes = readNotes(dir);
  if (notes.problem !== undefined) print(io, colors.yellow(notes.problem));
  if (notes.archived) print(io, "archived   yes");
  if (notes.tags.length > 0) print(io, `tags       ${tagsText(notes)}`);
  const [first, ...rest] = notes.note.split("\n").map(printable);
  if (notes.note !== "") print(io, `note       ${first}`, ...rest.map((line) => `           ${line}`));
}

async function readAll({ stdin }: CliIo): Promise<string> {
  let text = "";
  for await (const chunk of stdin) text += String(chunk);
  return text;
}
