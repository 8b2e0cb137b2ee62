// The dashboard's built page into the package that serves it.
import { cpSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const at = (path) => fileURLToPath(new URL(`../packages/${path}`, import.meta.url));
rmSync(at("stateset-agents/dist/ui"), { recursive: true, force: true });
cpSync(at("dashboard/dist"), at("stateset-agents/dist/ui"), { recursive: true });
