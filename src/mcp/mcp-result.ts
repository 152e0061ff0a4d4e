/** What a policy reads of the result of an MCP tool. */
import { countText } from '../core/count-text.ts';
import { fieldsOf, isObject } from '../schemas/is-object.ts';
import type { McpConnection } from './mcp-connection.ts';

export interface ReadResult {
  readonly isError: boolean;
  readonly text: string;
}

interface Reading {
  readonly maxChars: number;
  /** The server may repeat what it was given. */
  readonly connection: Pick<McpConnection, 'hide' | 'hideCredentials'>;
}

/** Texts as they are; what is not text is named, because the policy reads text only. A result without any content shows its structured one as JSON. */
export function resultText(result: unknown, { maxChars, connection }: Reading): ReadResult {
  const { content, structuredContent, isError } = fieldsOf(result);
  const parts = Array.isArray(content) ? content.map(partText) : [];
  const whole = parts.length === 0 && structuredContent !== undefined ? JSON.stringify(structuredContent) : parts.join('\n');
  const isFailure = isError === true;
  return { isError: isFailure, text: readText(isFailure ? connection.hide(whole) : connection.hideCredentials(whole), maxChars) };
}

/** As much of the text as the policy may read, and how much is left out. */
export function readText(whole: string, maxChars: number): string {
  const left = whole.length - maxChars;
  const kept = whole.slice(0, maxChars).toWellFormed();
  return left > 0 ? `${kept}\n[${countText(left)} further characters left out]` : kept;
}

function partText(part: unknown): string {
  const { type, text, mimeType, data, resource, name, uri } = fieldsOf(part);
  if (type === 'text') return String(text);
  if (type === 'resource' && isObject(resource))
    return typeof resource['text'] === 'string' ? resource['text'] : named('resource', resource['uri'], resource['mimeType']);
  if (type === 'resource_link') return named('resource', name, uri);
  return named(String(type), mimeType, typeof data === 'string' ? `${countText(Math.floor((data.length * 3) / 4))} bytes` : undefined);
}

/** `[image, image/png, 1,024 bytes]` */
function named(...words: readonly unknown[]): string {
  return `[${words.filter((word) => typeof word === 'string' && word !== '').join(', ')}]`;
}
