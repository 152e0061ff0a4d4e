/** Opens what a server of an environment needs: the environment, the tokenizer of its callers, and the models of its roles. */
import type { Disposers } from '../core/disposers.ts';
import type { Environment } from '../core/environment.ts';
import { ConfigError } from '../core/errors.ts';
import { trainingRows } from '../core/training-rows.ts';
import { modelPath } from '../data/bundled-models.ts';
import { LazyModels } from '../models/lazy-models.ts';
import { loadEnvironment } from '../registry/load-environment.ts';
import { showsImages } from '../rollouts/assert-playable.ts';
import type { RoleTables } from '../schemas/roles-config.ts';
import type { CallerTokenizer } from '../server/environment/served-environment.ts';
import { collectOldObjectsEarly, keepHeapSmall } from '../sessions/engine/spare-memory.ts';
import { localTokenizerHash } from '../sessions/policy/local-tokenizer-hash.ts';
import { secretsOf } from '../sessions/policy/secrets.ts';
import { type ResolvedRole, resolveRoles } from '../sessions/roles/resolve-roles.ts';
import type { Surroundings } from '../sessions/surroundings.ts';
import { openLocalTokenizer } from '../tokenizer/local-tokenizer.ts';
import { templateTraits } from '../tokenizer/template-traits.ts';
import { statIfThere } from '../files/regular-file.ts';

export interface ServedRequest {
  /** Arguments of the environment. @default none */
  readonly envArgs?: Readonly<Record<string, unknown>>;
  /** The folder of the user's own environments. @default environments, in the working directory */
  readonly envDirPath?: string;
  readonly split: 'train' | 'eval';
  /** @default the environment's own */
  readonly role?: RoleTables;
  /** The folder of the callers' model, or a bundled model. @default callers play by messages */
  readonly tokenizer?: string;
}

export interface ServedParts {
  readonly environment: Environment;
  readonly tokenizer: CallerTokenizer | null;
  readonly roles: readonly ResolvedRole[];
}

/** Loads the environment with the rows of the split, the callers' tokenizer, and decides which models play its roles. */
export async function openServed(
  id: string,
  options: ServedRequest,
  { variables, warn, secrets, signal }: Surroundings,
  opened: Disposers,
): Promise<ServedParts> {
  keepHeapSmall();
  collectOldObjectsEarly();
  const args = options.envArgs ?? {};
  for (const secret of secretsOf({ settings: [args] })) secrets.add(secret);
  const models = new LazyModels();
  const environment = await loadEnvironment(id, args, {
    ...(options.envDirPath === undefined ? {} : { environmentsDir: options.envDirPath }),
    env: variables,
    signal,
    purpose: options.split === 'train' ? 'training' : 'evaluation',
    models,
    note: warn,
  });
  opened.defer(() => environment.close());
  const { asksPolicy = false } = environment;
  if (environment.play !== undefined || asksPolicy) {
    const remedy = asksPolicy ? 'with vf-eval, train it with vf-train, or give the agent its model with vf-serve gateway' : 'with vf-eval';
    throw new ConfigError(
      `${environment.id} ${environment.play === undefined ? 'has an agent' : 'is an agent'}, which plays its rows itself, so it has no episodes that a caller could play. Evaluate it ${remedy}.`,
    );
  }
  if (showsImages(environment))
    throw new ConfigError(
      `${environment.id} shows images, and callers are sent text only. Serve it without them (${environment.withoutImages ?? 'if it has an argument for that'}), or evaluate it with vf-eval.`,
    );
  const rows = { train: trainingRows(environment), eval: environment.eval };
  if ((rows[options.split]?.length ?? 0) === 0) {
    const other = options.split === 'train' ? 'eval' : 'train';
    const remedy = (rows[other]?.length ?? 0) === 0 ? 'Give it other arguments, or rows' : `Serve its split ${other}`;
    throw new ConfigError(`${environment.id} has no rows in its split ${options.split}. ${remedy}.`);
  }
  const roles = await resolveRoles(environment.roles ?? {}, options.role ?? {}, { variables });
  for (const secret of secretsOf({ roles })) secrets.add(secret);
  return { environment, tokenizer: options.tokenizer === undefined ? null : await openCallerTokenizer(options.tokenizer), roles };
}

async function openCallerTokenizer(path: string): Promise<CallerTokenizer> {
  const directory = modelPath(path);
  if (statIfThere(directory)?.isDirectory() !== true) {
    throw new ConfigError(`The tokenizer ${path} is not a folder. Name the folder of the model that you train, with its tokenizer.json.`);
  }
  const tokenizer = await openLocalTokenizer(directory);
  return { tokenizer, traits: { ...(await templateTraits(tokenizer)), tokenizerHash: await localTokenizerHash(directory) } };
}
