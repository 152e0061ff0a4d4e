/** `--push`: asks the hub before a run whether the push can succeed, and uploads the run's files at its end. */
import { CancelledError, ConfigError } from '../core/errors.ts';
import { type HubRepository, hubToken } from '../data/hub-connection.ts';
import { HubPush, parseRepositoryName, type PushedFile } from '../data/hub-push.ts';
import { type CommandContext, EXIT } from './command-line.ts';

/** Throws ConfigError for a name that no repository can have. */
export function checkPushTarget(target: string, what: 'a model' | 'a data set'): void {
  if (parseRepositoryName(target) === null) throw new ConfigError(`--push must be OWNER/NAME, ${what} of the hub, got ${JSON.stringify(target)}`);
}

/** Asks the hub whether the push can succeed. Throws ConfigError. */
export async function openPush(repository: HubRepository, { secrets, signal }: Pick<CommandContext, 'secrets' | 'signal'>): Promise<HubPush> {
  const token = hubToken(process.env);
  if (token !== '') secrets.add(token);
  const push = new HubPush(repository, { env: process.env, signal });
  await push.assertAllowed();
  return push;
}

export interface Upload {
  readonly files: readonly PushedFile[];
  readonly title: string;
  /** The command and the line for a push that failed, such as how to push again. */
  readonly command: string;
  readonly failed: string;
}

/** Returns the exit code. A push that fails is reported and does not change the run. */
export async function upload(push: HubPush, { files, title, command, failed }: Upload, context: CommandContext): Promise<number> {
  try {
    const { url, isNew } = await push.upload(files, title, context.signal);
    context.note(`${command}: pushed to ${url}${isNew ? ' (new and private; its settings make it public)' : ''}`);
    return EXIT.done;
  } catch (error) {
    if (error instanceof CancelledError) throw error;
    context.report(error);
    context.note(`${command}: ${failed}`);
    return EXIT.failed;
  }
}
