import { statSync } from 'node:fs';
import { Disposers } from '../../core/disposers.ts';
import type { Environment } from '../../core/environment.ts';
import { ConfigError } from '../../core/errors.ts';
import { modelPath } from '../../data/bundled-models.ts';
import { packageVersion } from '../../data/package-root.ts';
import { LazyModels } from '../../models/lazy-models.ts';
import { loadEnvironment } from '../../registry/load-environment.ts';
import { showsImages } from '../../rollouts/assert-playable.ts';
import type { CallerTokenizer } from '../../server/environment/served-environment.ts';
import { startEnvironmentServer } from '../../server/environment/start-environment-server.ts';
import { openLocalTokenizer } from '../../tokenizer/local-tokenizer.ts';
import { templateTraits } from '../../tokenizer/template-traits.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { loadEnvironmentFile } from '../../sessions/environment/environment-file.ts';
import { secretsOf } from '../../sessions/policy/secrets.ts';
import { plural } from '../../reports/text/number-text.ts';
import { resolveRoles } from '../../sessions/roles/resolve-roles.ts';
import { collectOldObjectsEarly, keepHeapSmall } from '../../sessions/engine/spare-memory.ts';
import { localTokenizerHash } from '../../sessions/policy/local-tokenizer-hash.ts';
import type { EnvironmentOptions } from './environment-command.ts';
import { policiesOf } from './open-served-policy.ts';
import type { ServedOptions } from './served-options.ts';
import { endWithStdin, failedRolloutNotes, failureNotes, readKey, serveUntilStopped } from './serving.ts';
import { callerModels } from './served-roles.ts';

/** Time for pending requests to finish after Ctrl-C; a second Ctrl-C ends them. */
const GRACE_MS = 5_000;

/** Serves until the process is asked to stop. The first line on stdout is the URL, printed once the server answers. */
export async function serveEnvironment(id: string, options: EnvironmentOptions, context: CommandContext): Promise<number> {
  const { host, port, maxSessions, idleTimeout, stepTimeout, split } = options;
  const apiKey = readKey(options.apiKeyVar, context);
  await using opened = new Disposers();
  const stopped = options.exitWithStdin === true ? endWithStdin(context.signal) : context.signal;
  const { environment, tokenizer, roles } = await openServed(id, options, context, opened);
  const server = await startEnvironmentServer({
    environment,
    split,
    tokenizer,
    callerModels: await callerModels(roles, environment, context, opened),
    policies: {
      ...policiesOf({ environment, roles, maxConcurrent: maxSessions }, context),
      allowedHosts: options.allowPolicyHost ?? [],
      allowedKeyVariables: options.allowPolicyKeyVar ?? [],
    },
    redact: context.redact,
    host,
    port,
    apiKey,
    maxSessions,
    idleTimeoutMs: idleTimeout * 1000,
    stepTimeoutMs: stepTimeout * 1000,
    version: packageVersion(),
    onFailedRollout: failedRolloutNotes(context),
    onFailure: failureNotes(context),
  });
  const rows = environment[split];
  const ids = tokenizer === null ? 'by messages; --tokenizer DIR adds token ids' : `by token ids of ${options.tokenizer!} or by messages`;
  const about = `serving ${environment.id}, ${plural(rows.length, 'row')} of ${rows.name} (${split}), ${ids}`;
  await serveUntilStopped({ address: server.url, about, ending: 'ending episodes', stopped }, context);
  await server.close({ graceMs: context.signal.aborted ? GRACE_MS : 0 });
  return EXIT.done;
}

interface OpenedParts {
  readonly environment: Environment;
  readonly tokenizer: CallerTokenizer | null;
  readonly roles: Awaited<ReturnType<typeof resolveRoles>>;
}

/** Loads the environment with the rows of the split, the callers' tokenizer, and decides which models play its roles. */
export async function openServed(id: string, options: ServedOptions, context: CommandContext, opened: Disposers): Promise<OpenedParts> {
  keepHeapSmall();
  collectOldObjectsEarly();
  loadEnvironmentFile('.env', process.env);
  const args = options.envArgs ?? {};
  for (const secret of secretsOf({ settings: [args] })) context.secrets.add(secret);
  const models = new LazyModels();
  const environment = await loadEnvironment(id, args, {
    environmentsDir: options.envDirPath,
    env: process.env,
    signal: context.signal,
    purpose: options.split === 'train' ? 'training' : 'evaluation',
    models,
    note: (line) => context.note(`vf-serve: ${line}`),
  });
  opened.defer(() => environment.close());
  if (environment.play !== undefined)
    throw new ConfigError(
      `${environment.id} is a program: it asks models of its own, so it leaves nothing to a caller's policy. Evaluate it with vf-eval.`,
    );
  if (showsImages(environment))
    throw new ConfigError(
      `${environment.id} shows images, and callers are sent text only. Serve it without them (${environment.withoutImages ?? 'if it has an argument for that'}), or evaluate it with vf-eval.`,
    );
  if (environment[options.split].length === 0) {
    throw new ConfigError(
      `${environment.id} has no rows in its split ${options.split}. Serve the other one: --split ${options.split === 'train' ? 'eval' : 'train'}.`,
    );
  }
  const roles = await resolveRoles(environment.roles ?? {}, options.role ?? {}, { variables: process.env });
  for (const secret of secretsOf({ roles })) context.secrets.add(secret);
  return { environment, tokenizer: options.tokenizer === undefined ? null : await openCallerTokenizer(options.tokenizer), roles };
}

async function openCallerTokenizer(path: string): Promise<CallerTokenizer> {
  const directory = modelPath(path);
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new ConfigError(`--tokenizer ${path} is not a folder. Name the folder of the model that you train, with its tokenizer.json.`);
  }
  const tokenizer = await openLocalTokenizer(directory);
  return { tokenizer, traits: { ...(await templateTraits(tokenizer)), tokenizerHash: await localTokenizerHash(directory) } };
}
