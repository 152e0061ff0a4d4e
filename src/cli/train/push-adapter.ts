/** `--push`: uploads the adapter of a finished run with its model card. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { packageVersion } from '../../data/package-root.ts';
import type { HubPush } from '../../data/hub-push.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { checkPushTarget, openPush, upload } from '../push.ts';
import { displayPath, ownCommand } from '../../reports/text/own-command.ts';
import { baseFacts } from '../../reports/training/base-facts.ts';

/** Asks the hub before the run. Null without a target. Throws ConfigError. */
export async function openAdapterPush(target: string | null, context: CommandContext): Promise<HubPush | null> {
  if (target === null) return null;
  checkPushTarget(target, 'a model');
  return openPush({ type: 'model', name: target }, context);
}

export interface PushAdapterOptions {
  readonly config: TrainingConfig;
  /** The folder of the run. */
  readonly directory: string;
  /** The adapter with the lowest validation loss if the run has one, else that of the last checkpoint; null if nothing was trained. */
  readonly adapter: string | null;
  readonly context: CommandContext;
}

/** Returns the exit code. A push that fails is reported and does not change the run. */
export async function pushAdapter(push: HubPush, { config, directory, adapter, context }: PushAdapterOptions): Promise<number> {
  if (adapter === null) {
    context.note('vf-train: the run has no adapter, so nothing was pushed');
    return EXIT.done;
  }
  if (!existsSync(join(adapter, 'README.md'))) context.note('vf-train: the adapter has no README.md, so it is pushed without a card');
  const names = readdirSync(adapter, { withFileTypes: true }).filter((entry) => entry.isFile() && !entry.name.endsWith('.tmp'));
  const files = names.map(({ name }) => ({ path: name, content: { file: join(adapter, name) } }));
  const title = `Add the adapter of ${basename(directory)} (vf-search ${packageVersion()})`;
  const again = ownCommand('vf-train', ['-R', displayPath(directory), '--push', push.name]);
  const failed = `the run is finished and kept; this pushes it again: ${again}`;
  const code = await upload(push, { files, title, command: 'vf-train', failed }, context);
  const base = baseFacts(config.model.path, process.env);
  if (code === EXIT.done && base.hubId === null && !base.isBundled)
    context.note(`vf-train: its card names no base model, because no id of the hub is known for ${base.name}; add base_model to the card`);
  return code;
}
