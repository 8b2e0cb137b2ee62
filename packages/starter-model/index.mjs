import { fileURLToPath } from "node:url";

export const starterModelPath = fileURLToPath(new URL("./model", import.meta.url));
