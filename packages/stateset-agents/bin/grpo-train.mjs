#!/usr/bin/env node
import "../dist/cli/grpo-train.mjs";
