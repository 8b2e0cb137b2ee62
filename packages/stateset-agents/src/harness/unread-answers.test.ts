import { createServer, get, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer, text } from "node:stream/consumers";
import { expect, it, onTestFinished } from "vitest";
import { watchAnswers } from "./unread-answers.ts";

/** More than lies between two ends of a connection that nobody reads from. */
const much = Buffer.alloc(32 << 20);

async function opened(answer: (response: ServerResponse) => void) {
  const node = createServer((_, response) => answer(response));
  const answers = watchAnswers(node);
  await new Promise<void>((settle) => node.listen(0, "127.0.0.1", settle));
  onTestFinished(() => {
    node.closeAllConnections();
    node.close();
  });
  const { port } = node.address() as AddressInfo;
  const asked = (path: string) =>
    new Promise<IncomingMessage>((settle, reject) => {
      get(`http://127.0.0.1:${port}${path}`, settle).on("error", reject);
    });
  const connections = () => new Promise<number>((settle) => node.getConnections((_, count) => settle(count)));
  return { answers, asked, connections };
}

it("cuts off an answer that is whole and that nobody reads, and no other", async () => {
  const { answers, asked, connections } = await opened((response) => response.end(much));
  const own = await asked("/r/1/0/v1/chat/completions");
  const other = await asked("/r/10/0/v1/chat/completions");
  const broken = new Promise<Error>((settle) => own.once("error", settle));
  await answers.end("/r/1/0/", 20);
  own.resume();
  expect(await broken).toMatchObject({ code: "ECONNRESET" });
  expect(await buffer(other)).toHaveLength(much.length);
  expect(await connections()).toBeLessThanOrEqual(1);
});

it("lets what is read come to its end", async () => {
  let finish = () => {};
  const { answers, asked } = await opened((response) => {
    response.write("a");
    finish = () => response.end("b");
  });
  const reading = await asked("/r/1/0/v1");
  setTimeout(() => finish());
  const told = text(reading);
  await answers.end("/r/1/0/", 10_000);
  expect(await told).toBe("ab");
  await answers.end("/r/1/0/", 10_000);
});
