/** `--push`: uploads a finished run as a data set with a card. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { CancelledError, ConfigError } from '../../core/errors.ts';
import { type HubPush, parseRepositoryName, type PushedFile } from '../../data/hub-push.ts';
import { readRegularFile } from '../../files/regular-file.ts';
import { hideAddresses, mapStrings } from '../../transport/redact.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { openPush, pushedText } from '../open-push.ts';
import { shellCommand, withoutOptions } from '../../reports/text/own-command.ts';
import { resumeCommand } from '../../reports/evaluation/next-commands.ts';
import { resultsCard } from '../../reports/evaluation/results-card.ts';
import type { EvaluationOutcome } from './run-evaluation.ts';
import type { PlannedRun } from './toml-config.ts';

const FILES: Readonly<Record<string, string>> = {
  'results.jsonl': 'one rollout per line: prompt, completion, answer, reward, metrics, error',
  'tokens.jsonl': 'token ids, loss mask and log-probs of the rollouts',
  'asked.jsonl': 'calls of models other than the policy',
  'trace.jsonl': 'what happened in the rollouts, in order',
  'metadata.json': 'settings, versions and averages',
};

/** Throws ConfigError for a target that is no name, and for two runs with one target, because the second would replace the first. */
export function checkPushTargets(runs: readonly PlannedRun[]): void {
  const seen = new Set<string>();
  for (const { settings } of runs) {
    const { push } = settings;
    if (push === undefined) continue;
    if (parseRepositoryName(push) === null) throw new ConfigError(`--push must be OWNER/NAME, a data set of the hub, got ${JSON.stringify(push)}`);
    if (seen.has(push))
      throw new ConfigError(`Two runs push to ${push}, and the second would replace the first. Give each [[eval]] a push of its own.`);
    seen.add(push);
  }
}

/** Asks the hub before the run. Null without --push. */
export async function openResultsPush({ settings }: PlannedRun, context: CommandContext): Promise<HubPush | null> {
  return settings.push === undefined || settings.dryRun === true ? null : openPush({ type: 'dataset', name: settings.push }, context);
}

export interface PushResultsOptions {
  readonly context: CommandContext;
  readonly packageVersion: string;
  /** The arguments of the command, without -R. */
  readonly words: readonly string[];
}

/** Returns the exit code. A push that fails is reported and does not change the run. */
export async function pushResults(push: HubPush, { summary, facts }: EvaluationOutcome, options: PushResultsOptions): Promise<number> {
  const { context, packageVersion, words } = options;
  const { directory, complete, envId, model } = summary;
  if (!complete) {
    context.note('vf-eval: the run is not complete, so nothing was pushed; with -R and --push it is pushed at its end');
    return EXIT.done;
  }
  const names = Object.keys(FILES).filter((name) => existsSync(join(directory, name)));
  const command = context.redact(shellCommand(['npx', 'vf-eval', ...withoutOptions(words, ['--push'])]));
  const files = names.map((name) => ({ name, about: FILES[name]! }));
  const card = hideAddresses(context.redact(resultsCard({ summary, facts, packageVersion, command, files })));
  const contents: PushedFile[] = [
    { path: 'README.md', content: { text: card } },
    ...(await Promise.all(names.map((name) => pushedFile(directory, name)))),
    ...imagesOf(directory),
  ];
  try {
    const pushed = await push.upload(contents, `Add ${envId} of ${model} (vf-search ${packageVersion})`, context.signal);
    context.note(`vf-eval: ${pushedText(pushed)}`);
    return EXIT.done;
  } catch (error) {
    if (error instanceof CancelledError) throw error;
    context.report(error);
    context.note(`vf-eval: the results are saved; this pushes them again: ${resumeCommand(words, directory)}`);
    return EXIT.failed;
  }
}

/** The address of a server is of no use to others, and may be private. */
async function pushedFile(directory: string, name: string): Promise<PushedFile> {
  const file = join(directory, name);
  if (name !== 'metadata.json') return { path: name, content: { file } };
  const metadata = JSON.parse(await readRegularFile(file)) as { sessions?: object[] };
  const sessions = metadata.sessions?.map((session) => ({ ...session, base_url: null }));
  return { path: name, content: { text: `${JSON.stringify(mapStrings({ ...metadata, base_url: null, sessions }, hideAddresses), null, 2)}\n` } };
}

function imagesOf(directory: string): PushedFile[] {
  const folder = join(directory, 'images');
  const names = existsSync(folder) ? readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile()) : [];
  return names.map(({ name }) => ({ path: `images/${name}`, content: { file: join(folder, name) } }));
}
