#!/usr/bin/env node
import "../dist/cli/grpo-serve.mjs";
