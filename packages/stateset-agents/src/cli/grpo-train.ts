#!/usr/bin/env node
import { runMain } from "./run-main.ts";

await runMain(["train", ...process.argv.slice(2)]);
