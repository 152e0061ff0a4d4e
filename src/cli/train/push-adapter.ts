/** `--push`: uploads the adapter of a finished run with its model card. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { changedAdapterText } from '../../core/changed-adapter.ts';
import { adapterFault } from '../../files/written-files.ts';
import { packageVersion } from '../../data/package-root.ts';
import { ConfigError } from '../../core/errors.ts';
import type { HubPush } from '../../data/hub-push.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { openPush, upload } from '../push.ts';
import type { TrainArguments } from './train-arguments.ts';
import { nearbyPath, ownCommand } from '../../reports/text/own-command.ts';
import { baseFacts } from '../../reports/training/base-facts.ts';

/** Where an adapter is pushed, and which of the run's: that of the last step, or the one in `best/`. */
export interface AdapterPush {
  readonly hub: HubPush;
  readonly which: 'last' | 'best';
}

/** Asks the hub before the run. Null if nothing is to be pushed. Throws ConfigError. */
export async function openAdapterPush(push: TrainArguments['push'], context: CommandContext): Promise<AdapterPush | null> {
  if (push === null) return null;
  return { hub: await openPush({ type: 'model', name: push.target }, context), which: push.which };
}

export interface PushAdapterOptions {
  readonly config: TrainingConfig;
  /** The folder of the run. */
  readonly directory: string;
  /** That of the last step; null if nothing was trained. */
  readonly last: string | null;
  /** The one in `best/`; null without one. */
  readonly best: string | null;
  readonly context: CommandContext;
}

/** `pushAdapter` of a run that had finished before: a hub that cannot be reached changes the run no more than a push that fails. */
export async function pushFinished(push: NonNullable<TrainArguments['push']>, options: PushAdapterOptions): Promise<number> {
  const { context, directory } = options;
  try {
    return await pushAdapter((await openAdapterPush(push, context))!, options);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    context.report(error);
    context.note(`vf-train: ${failedText(directory, push.target, push.which)}`);
    return EXIT.failed;
  }
}

function failedText(directory: string, target: string, which: AdapterPush['which']): string {
  const again = ownCommand('vf-train', ['-R', nearbyPath(directory), '--push', target, ...(which === 'best' ? ['--push-best'] : [])]);
  return `the run is finished and kept; this pushes it again: ${again}`;
}

/** Returns the exit code. A push that fails is reported and does not change the run. */
export async function pushAdapter({ hub, which }: AdapterPush, { config, directory, context, ...adapters }: PushAdapterOptions): Promise<number> {
  const adapter = adapters[which];
  if (which === 'best' && adapter === null) {
    context.note('vf-train: the run has no best adapter, so nothing was pushed; without --push-best, that of the last step is');
    return EXIT.failed;
  }
  if (adapter === null) {
    context.note('vf-train: the run has no adapter, so nothing was pushed');
    return EXIT.failed;
  }
  const fault = await adapterFault(adapter);
  if (fault !== null) {
    context.note(`vf-train: nothing was pushed. ${changedAdapterText(adapter, fault)}`);
    return EXIT.failed;
  }
  if (!existsSync(join(adapter, 'README.md'))) context.note('vf-train: the adapter has no README.md, so it is pushed without a card');
  const names = readdirSync(adapter, { withFileTypes: true }).filter((entry) => entry.isFile() && !entry.name.endsWith('.tmp'));
  const files = names.map(({ name }) => ({ path: name, content: { file: join(adapter, name) } }));
  const title = `Add the adapter of ${basename(directory)} (vf-search ${packageVersion()})`;
  const failed = failedText(directory, hub.name, which);
  const code = await upload(hub, { files, title, command: 'vf-train', failed }, context);
  const base = baseFacts(config.model.path, process.env);
  if (code === EXIT.done && base.hubId === null && !base.isBundled)
    context.note(`vf-train: its card names no base model, because no id of the hub is known for ${base.name}; add base_model to the card`);
  return code;
}
