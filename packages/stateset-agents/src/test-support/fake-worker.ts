/** A scripted worker: a server that speaks frames, for what a connection must survive. */
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { encodeFrame, type Frame, type FrameArray, FrameReader } from "../policy/torch/frame.ts";

export interface FakeCall {
  id: number;
  op: string;
  frame: Frame;
  /** What the worker says to it. */
  answer(fields: Record<string, unknown>, arrays?: Record<string, FrameArray>): void;
  /** Bytes as they are. */
  write(...parts: readonly Uint8Array[]): void;
  socket: Socket;
}

/** What it does with each call; `undefined` for one it does not know: then `ping` is answered and nothing else. */
export type FakeScript = (call: FakeCall) => void;

export interface FakeWorker {
  path: string;
  /** Every op that was asked for, in order. */
  ops: string[];
  close(): Promise<void>;
}

/** Listens on a socket in `dir`. */
export async function startFakeWorker(dir: string, script: FakeScript): Promise<FakeWorker> {
  const path = join(dir, "fake-worker");
  const ops: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    const reader = new FrameReader();
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    socket.on("data", (chunk: Buffer) => {
      for (const frame of reader.push(chunk)) {
        const { id, op } = frame.envelope as { id: number; op: string };
        ops.push(op);
        const write = (...parts: readonly Uint8Array[]) => {
          for (const part of parts) socket.write(part);
        };
        script({
          id,
          op,
          frame,
          socket,
          write,
          answer: (fields, arrays) => write(...encodeFrame({ id, ...fields }, arrays)),
        });
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    path,
    ops,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
