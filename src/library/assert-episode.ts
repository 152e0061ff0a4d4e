import type { Message, Role } from '../core/message.ts';
import { ConfigError } from '../core/errors.ts';
import { assertEnvironment } from '../registry/load-environment.ts';
import { isObject } from '../schemas/is-object.ts';

const ROLES: readonly unknown[] = ['system', 'user', 'assistant', 'tool'] satisfies Role[];

/** Throws ConfigError unless these are a loaded environment and a row; `name` is the function that needs them. */
export function assertEpisode(name: string, environment: unknown, row: unknown): void {
  assertEnvironment(name, environment);
  if (!isObject(row) || !Array.isArray(row['prompt']))
    throw new ConfigError(`${name} needs a row of the environment, such as environment.eval.at(0)`);
}

/** Throws ConfigError unless these are messages. */
export function assertMessages(messages: unknown): asserts messages is readonly Message[] {
  if (!Array.isArray(messages))
    throw new ConfigError(`The messages of an episode must be a list of { role, content }, got ${JSON.stringify(messages)}`);
  const wrong: unknown = messages.find((message) => !isObject(message) || !ROLES.includes(message['role']) || !hasContent(message));
  if (wrong !== undefined)
    throw new ConfigError(
      `A message of an episode is { role, content } with the role ${ROLES.join(', ')}, got ${JSON.stringify(wrong)?.slice(0, 200)}`,
    );
}

function hasContent({ content }: Record<string, unknown>): boolean {
  return typeof content === 'string' || Array.isArray(content);
}
