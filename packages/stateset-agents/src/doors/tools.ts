/** `stateset-agents/tools`: what an agent can do beside talking. Tools, how models write their calls, tasks that tools solve, users who talk back. */

export { ToolAgent } from "../agent/tool-agent.ts";
export type { ToolCall } from "../conversation/message.ts";
export type { ToolDefinition } from "../conversation/tool-definition.ts";
export { booking } from "../environment/domain/booking/booking.ts";
export {
  type DomainOptions,
  oracleReply,
  type SolutionStep,
  type TaskClass,
  taskClasses,
} from "../environment/domain/domain.ts";
export { retail } from "../environment/domain/retail/retail.ts";
export type { FinalCheck } from "../environment/task/check.ts";
export type { CallPattern, Phrase, TaskExpectation, TaskProhibition } from "../environment/task/declared.ts";
export type { FinalTask, TaskCall } from "../environment/task/final.ts";
export type { StatefulMetadata, StatefulTaskOptions } from "../environment/task/stateful.ts";
export type { StatefulTask, StatefulTaskInput } from "../environment/task/stateful-task.ts";
export type { TaskTool, TaskToolResult, TaskWrite } from "../environment/task/task-tool.ts";
export { type ModelUserOptions, type ModelUserProfile, modelUser } from "../environment/user/model.ts";
export { personaUser } from "../environment/user/persona.ts";
export type { ProfileOption, UserFact, UserProfile, UserStyle } from "../environment/user/profile.ts";
export { scriptedUser } from "../environment/user/scripted.ts";
export type { User, UserOptions, UserView } from "../environment/user/user.ts";
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
