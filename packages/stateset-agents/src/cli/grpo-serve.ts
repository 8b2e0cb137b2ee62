#!/usr/bin/env node
import { runMain } from "./run-main.ts";

await runMain(["serve", ...process.argv.slice(2)]);
