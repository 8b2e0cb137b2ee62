/** Run before each test file, also where several share a process and its modules. */
import { afterAll } from "vitest";
import { removeTemporaryFolders } from "../packages/stateset-agents/test/temporary-folder.ts";

afterAll(removeTemporaryFolders);
