#!/usr/bin/env node
// Stands for a Python that runs the worker: what it does is said by FAKE_PYTHON, a JSON object.
import { createServer } from "node:net";

const { says = "", exitCode, hello = {}, info = {}, dies } = JSON.parse(process.env.FAKE_PYTHON ?? "{}");
process.stderr.write(
  says
    .replaceAll("$PID", process.pid)
    .replaceAll("$ARGV", process.argv.join(" "))
    .replaceAll("$ENV", JSON.stringify(process.env)),
);
if (exitCode !== undefined) process.exit(exitCode);
if (dies === "start") process.kill(process.pid, "SIGKILL");

function frame(envelope) {
  const json = JSON.stringify({ __metadata__: { frame: JSON.stringify(envelope) } });
  const text = Buffer.from(json + " ".repeat((8 - (Buffer.byteLength(json) % 8)) % 8));
  const head = Buffer.alloc(16);
  head.writeBigUInt64LE(BigInt(8 + text.length), 0);
  head.writeBigUInt64LE(BigInt(text.length), 8);
  return Buffer.concat([head, text]);
}

const greeting = {
  ...{ protocol: 1, version: "0.1.0", world: 1, device: "cpu", gpus: [], pids: [process.pid], host: "here" },
  ...{ torch: "2.13", transformers: "5.22", peft: "0.21", bitsandbytes: false },
  ...hello,
};
const model = {
  ...{ architecture: "llama", parameters: 10, trainableParameters: 10, hiddenSize: 4, layers: 1, vocabSize: 512 },
  ...{ contextLength: 64, digest: "0123456789abcdef", valueHead: false, count: 0, slots: 4 },
  capabilities: {
    ...{ exact: false, seeded: false, entropy: true, values: true, hidden: true, vectors: true, loraPlus: true },
    ...{ constrain: false, promptLogprobs: false, embed: false },
  },
  bytes: { weights: 1, trainable: 1, perToken: 1, perTokenRecompute: 1, cache: 1, free: 1, total: 1 },
  ...info,
};

const server = createServer((socket) => {
  let bytes = Buffer.alloc(0);
  socket.on("data", (chunk) => {
    bytes = Buffer.concat([bytes, chunk]);
    while (bytes.length >= 16 && bytes.length >= 8 + Number(bytes.readBigUInt64LE(0))) {
      const length = 8 + Number(bytes.readBigUInt64LE(0));
      const header = JSON.parse(bytes.subarray(16, 16 + Number(bytes.readBigUInt64LE(8))).toString());
      bytes = bytes.subarray(length);
      const { id, op } = JSON.parse(header.__metadata__.frame);
      if (op === dies) process.kill(process.pid, "SIGKILL");
      if (op === "hello") socket.write(frame({ id, ok: true, ...greeting }));
      else if (op === "open") socket.write(frame({ id, ok: true, info: model }));
      else if (op === "ping") socket.write(frame({ id, ok: true, busy: null }));
    }
  });
  socket.on("close", () => process.exit(0));
  socket.on("error", () => {});
});
server.listen(process.argv[process.argv.indexOf("--socket") + 1], () => process.stdout.write('{"ready": true}\n'));
