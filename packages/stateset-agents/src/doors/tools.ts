/** `stateset-agents/tools`: what an agent can do beside talking. Tools, how models write their calls, and who may run them. */

export { ToolAgent } from "../agent/tool-agent.ts";
export type { ToolCall } from "../conversation/message.ts";
export type { ToolDefinition } from "../conversation/tool-definition.ts";
export {
  type CallFormat,
  type CallFormatName,
  callFormatNames,
  isUnreadable,
  type ParsedReply,
  type UnreadableCall,
  type WrittenCall,
} from "../tool/format/call-format.ts";
export { callFormats } from "../tool/format/choose-format.ts";
export type { McpAddress, McpChange, McpCommand, McpOptions, McpServer } from "../tool/mcp/options.ts";
export { type McpTools, mcpTools } from "../tool/mcp.ts";
export type { ArgumentsOf, Checked, StandardSchema, ToolParameters } from "../tool/parameters.ts";
export type { NamedFunction, SdkTool, ToolsInput } from "../tool/read-tools.ts";
export { type Approval, type ToolFailure, toolFailures } from "../tool/run-calls.ts";
export { compileSchema, type JsonSchema, type SchemaCheck } from "../tool/schema/compile-schema.ts";
export { type Tool, type ToolContext, type ToolOptions, tool } from "../tool/tool.ts";
