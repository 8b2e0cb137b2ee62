#!/usr/bin/env node
import { runMain } from "./run-main.ts";

await runMain(process.argv.slice(2));
