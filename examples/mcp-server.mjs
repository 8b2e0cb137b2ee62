/** A small MCP server with one tool, which mcp-agent.ts starts. */
import { McpServer } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const orders = { 4821: "shipped", 5930: "open", 6114: "delivered", 7207: "lost" };

const server = new McpServer({ name: "orders", version: "1.0.0" });
server.registerTool(
  "get_order",
  { description: "The state of an order", inputSchema: z.object({ order_id: z.string() }) },
  async ({ order_id }) => ({
    content: [{ type: "text", text: JSON.stringify({ order_id, status: orders[order_id] ?? "unknown" }) }],
  }),
);
await server.connect(new StdioServerTransport());
