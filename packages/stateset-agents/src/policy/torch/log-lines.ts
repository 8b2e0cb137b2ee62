import { appendFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { messageOf, StatesetError } from "../../error.ts";

/** Lines kept to be told of, and the longest of them. */
const kept = 200;
const longest = 4_096;

/** What the worker prints: the last of it here, all of it in a file where there is a folder for it. */
export class LogLines {
  readonly file: string | undefined;
  readonly #redact: (text: string) => string;
  readonly #lines: string[] = [];
  #begun = "";

  constructor(logDir: string | undefined, redact: (text: string) => string) {
    this.#redact = redact;
    if (logDir !== undefined) makeFolder(logDir);
    this.file = logDir && join(logDir, "worker.log");
  }

  /** Whole lines alone: half a token would not be known for one. */
  take(chunk: string): void {
    const lines = `${this.#begun}${chunk}`.split("\n");
    this.#begun = lines.pop()!;
    if (this.#begun.length > longest) {
      lines.push(this.#begun);
      this.#begun = "";
    }
    this.#add(lines.filter((line) => line.trim() !== ""));
  }

  finish(): void {
    this.take("\n");
  }

  last(count: number): string[] {
    return this.#lines.slice(-count);
  }

  #add(lines: readonly string[]): void {
    if (lines.length === 0) return;
    const shown = lines.map((line) => this.#redact(line.slice(0, longest)));
    this.#lines.push(...shown);
    this.#lines.splice(0, this.#lines.length - kept);
    // A full disk must not end what trains.
    if (this.file !== undefined) attempt(() => appendFileSync(this.file!, `${shown.join("\n")}\n`));
  }
}

function makeFolder(dir: string): void {
  try {
    mkdirSync(dir, { recursive: true });
  } catch (cause) {
    throw new StatesetError("WRITE_FAILED", `torch.logDir cannot be made: ${messageOf(cause)}.`, {
      hint: "Name another folder, or leave it out.",
      cause,
    });
  }
}

function attempt(work: () => void): void {
  try {
    work();
  } catch {}
}
