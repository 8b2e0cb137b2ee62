#!/usr/bin/env node
import "../dist/cli/grpo-evaluate.mjs";
