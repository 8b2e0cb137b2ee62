/** What a server answered to a call, as text for the model, which reads no pictures. */
import { isDeepStrictEqual } from "node:util";
import type { CallToolResult } from "@modelcontextprotocol/client";

type Content = CallToolResult["content"][number];

/** Undefined: nothing was said. */
export function contentText({ content, structuredContent }: CallToolResult): string | undefined {
  const parts = structuredContent === undefined ? [] : [JSON.stringify(structuredContent)];
  for (const part of content) {
    // Servers say structured content as text too, for clients that do not know it.
    if (part.type === "text" && structuredContent !== undefined && says(part.text, structuredContent)) continue;
    parts.push(inWords(part));
  }
  return parts.length > 0 ? parts.join("\n") : undefined;
}

function inWords(part: Content): string {
  switch (part.type) {
    case "text":
      return part.text;
    case "image":
    case "audio":
      return `[${part.type}, ${part.mimeType}, ${bytesOf(part.data)} bytes]`;
    case "resource": {
      const { resource } = part;
      const kind = resource.mimeType === undefined ? "" : `, ${resource.mimeType}`;
      if ("text" in resource) return `[resource ${resource.uri}${kind}]\n${resource.text}`;
      return `[resource ${resource.uri}${kind}, ${bytesOf(resource.blob)} bytes]`;
    }
    case "resource_link":
      return `[link to ${part.uri}: ${part.description ?? part.title ?? part.name}]`;
  }
}

function bytesOf(base64: string): number {
  return Buffer.byteLength(base64, "base64");
}

function says(text: string, value: unknown): boolean {
  try {
    return isDeepStrictEqual(JSON.parse(text), value);
  } catch {
    return false;
  }
}
