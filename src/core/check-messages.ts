/** Checks the messages of an environment, whose code may be JavaScript that no compiler has read. */
import { type Message, type Role } from './message.ts';

const ROLES: readonly unknown[] = ['system', 'user', 'assistant', 'tool'] satisfies readonly Role[];

/** Describes the fault in a list of messages, such as `prompt[0].content must be ..., got 42`; null if there is none. `name` is what the list is called. */
export function messagesProblem(messages: readonly Message[], name: string): string | null {
  const list: unknown = messages;
  if (!Array.isArray(list)) return `${name} must be a list of messages, got ${shown(list)}`;
  for (const [i, message] of (list as readonly unknown[]).entries()) {
    if (typeof message !== 'object' || message === null) return `${name}[${i}] must be a message with a role and a content, got ${shown(message)}`;
    const { role, content } = message as Readonly<Record<keyof Message, unknown>>;
    if (!ROLES.includes(role)) return `${name}[${i}].role must be one of ${ROLES.join(', ')}, got ${shown(role)}`;
    if (typeof content === 'string') continue;
    if (!Array.isArray(content)) return `${name}[${i}].content must be a string or a list of parts, got ${shown(content)}`;
    const odd = content.findIndex((part) => !isPart(part));
    if (odd !== -1)
      return `${name}[${i}].content[${odd}] must be {type: 'text', text: string} or {type: 'image', image: reference}, got ${shown(content[odd])}`;
  }
  return null;
}

function isPart(part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return false;
  const { type, text, image } = part as Readonly<Record<string, unknown>>;
  return type === 'text' ? typeof text === 'string' : type === 'image' && typeof image === 'object' && image !== null;
}

function shown(value: unknown): string {
  const text =
    typeof value === 'object' && value !== null ? (Array.isArray(value) ? 'a list' : 'an object') : (JSON.stringify(value) ?? String(value));
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
