/** An MCP server that speaks the revision of 2026 alone, over standard input and output or HTTP: `node modern-mcp-server.mjs [http]`. */
import { createServer } from "node:http";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const said = (text) => ({ content: [{ type: "text", text }] });

function make() {
  const server = new McpServer({ name: "modern", version: "1" }, { capabilities: { tools: { listChanged: true } } });
  server.registerTool("echo", { inputSchema: z.object({ text: z.string() }) }, async ({ text }) => said(text));
  server.registerTool("grow", { inputSchema: z.object({}) }, async () => {
    server.registerTool("late", { inputSchema: z.object({}) }, async () => said("here now"));
    return said("grown");
  });
  return server;
}

if (process.argv[2] === "http") {
  const handler = createMcpHandler(make, { legacy: "reject" });
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const { method, headers } = request;
    const answer = await handler.fetch(
      new Request(`http://${headers.host}${request.url}`, { method, headers, ...(body && { body }) }),
    );
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    for await (const chunk of answer.body ?? []) response.write(chunk);
    response.end();
  });
  server.listen(0, "127.0.0.1", () => console.error(server.address().port));
} else serveStdio(make, { legacy: "reject" });
