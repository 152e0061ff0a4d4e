import { hubToken } from '../data/hub-connection.ts';
import { HubPush, type Pushed } from '../data/hub-push.ts';
import type { HubRepository } from '../data/hub-connection.ts';
import type { CommandContext } from './command-line.ts';

/** Asks the hub whether the push can succeed. Throws ConfigError. */
export async function openPush(repository: HubRepository, { secrets, signal }: Pick<CommandContext, 'secrets' | 'signal'>): Promise<HubPush> {
  const token = hubToken(process.env);
  if (token !== '') secrets.add(token);
  const push = new HubPush(repository, { env: process.env, signal });
  await push.assertAllowed();
  return push;
}

export function pushedText({ url, isNew }: Pushed): string {
  return `pushed to ${url}${isNew ? ' (new and private; its settings make it public)' : ''}`;
}
