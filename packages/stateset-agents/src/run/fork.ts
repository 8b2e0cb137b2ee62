import { cpSync, existsSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { writeFolderAtomic } from "../durable.ts";
import { verifyManifest } from "./checkpoint/manifest.ts";
import { findCheckpoint, runDirOf } from "./checkpoint/store.ts";
import { readConfig } from "./config.ts";
import { evaluationFiles, keepEvaluations } from "./evaluation-conversations.ts";
import type { RunEvent } from "./event.ts";
import { logFiles, pathIn, runFiles, stepName } from "./layout.ts";
import { holderOf } from "./lock.ts";
import { JsonLog, readJsonLines } from "./log.ts";
import type { SavedRun } from "./run.ts";
import { copyTrajectories } from "./trajectories.ts";

/**
 * A new run that has been, up to a checkpoint, what another one was: its settings, its records up to there, the checkpoint and the best
 * one. It appears whole or not at all, and the old run is only read.
 */
export async function forkRun(resumeFrom: string, target: string, id: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await copyRun(resumeFrom, target, id);
    } catch (error) {
      // Whoever runs the old one removes its older checkpoints, also one that is being read; then there is a newer one.
      if (tries === 10 || !holderOf(runDirOf(resumeFrom))) throw error;
    }
  }
}

async function copyRun(resumeFrom: string, target: string, id: string): Promise<void> {
  const source = runDirOf(resumeFrom);
  const config = readConfig(source);
  const found = findCheckpoint<SavedRun<unknown>>(resumeFrom, () => {});
  const step = found?.step ?? 0;
  const fill = async (temporary: string) => {
    const forked = { ...config, id, forkedFrom: { run: config.id, step } };
    writeFileSync(pathIn(temporary, "config"), `${JSON.stringify(forked, undefined, 2)}\n`);
    if (!found) return;
    for (const file of logFiles) {
      if (!existsSync(pathIn(source, file))) continue;
      cpSync(pathIn(source, file), pathIn(temporary, file));
      new JsonLog(pathIn(temporary, file)).cut(found.state.logs[file]);
    }
    copyTrajectories(source, temporary, step);
    for (const file of evaluationFiles(source)) cpSync(file, join(temporary, runFiles.trajectories, basename(file)));
    keepEvaluations(
      temporary,
      readJsonLines<RunEvent>(pathIn(temporary, "events")).filter((event) => event.type === "evaluation"),
    );
    const best = found.state.best === null ? undefined : stepName(found.state.best);
    const kept = new Set([basename(found.dir), ...(best === undefined ? [] : [best])]);
    for (const name of kept) {
      const to = join(temporary, runFiles.checkpoints, name);
      try {
        cpSync(join(source, runFiles.checkpoints, name), to, { recursive: true });
        verifyManifest(to);
      } catch (error) {
        // The best one of a run that is over may be gone or damaged; it can go on without.
        if (name === basename(found.dir) || holderOf(source)) throw error;
        rmSync(to, { recursive: true, force: true });
      }
    }
  };
  await writeFolderAtomic(target, fill, { replace: false });
}
