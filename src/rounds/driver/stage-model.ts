/** The model of a stage by its role: `--role vetter=...` or `[roles.vetter]`, with a cache on disk, so that a repeated stage makes only new requests. */
import { basename, dirname } from 'node:path';
import { NO_POLICY } from '../../clients/no-policy.ts';
import { Disposers } from '../../core/disposers.ts';
import { ConfigError } from '../../core/errors.ts';
import type { ImageStore } from '../../core/message.ts';
import type { RoleDeclarations } from '../../core/model.ts';
import { makeFolder } from '../../files/make-folder.ts';
import { lockRun } from '../../files/run-lock.ts';
import type { AskOptions } from '../ask-rows.ts';
import type { StageContext, StageModelOptions } from './round-commands.ts';
import { mergeRoleTables } from '../../schemas/merge-role-tables.ts';
import type { RoleTable } from '../../schemas/roles-config.ts';
import { secretRedactor } from '../../transport/redact.ts';
import { loadEnvironmentFile } from '../../sessions/environment/environment-file.ts';
import { assertKnownKeys, readToml } from '../../files/toml-text.ts';
import { openRoles, type RolePolicy } from '../../sessions/roles/open-roles.ts';
import { secretsOf } from '../../sessions/policy/secrets.ts';
import { resolveRoles } from '../../sessions/roles/resolve-roles.ts';
import { checkRoleTables } from '../../sessions/roles/check-role-tables.ts';

export interface RoleOptions extends StageModelOptions {
  readonly output: string;
}

const ABOUT = {
  vetter: 'judges rows of a round',
  rewriter: 'words the thinks of demonstrations',
} as const;
type StageRole = keyof typeof ABOUT;

/** A stage has no policy. */
const NO_ONE = {
  name: NO_POLICY.name,
  client: () => NO_POLICY,
  capabilities: NO_POLICY.capabilities,
} as const satisfies RolePolicy;

/** Tells whether the user named a model for the role. */
export async function isBound(role: StageRole, options: RoleOptions): Promise<boolean> {
  const table = await tableOf(role, options, FLAG);
  return table.use !== undefined || table.base_url !== undefined;
}

/**
 * Rejects with ConfigError, in the words of a table, if the table of a stage names no usable model. Makes no connection and writes nothing.
 * @param table the options of the stage, from the file that has them
 */
export async function checkStageModel(role: StageRole, table: StageModelOptions, variables: NodeJS.ProcessEnv): Promise<void> {
  await resolvedModel(role, { ...table, output: 'rows.jsonl' }, { binding: KEY, variables });
}

/** The way in which a user binds a role: on the command line, or by a key of a table. */
interface Binding {
  readonly name: string;
  readonly example: (role: StageRole, model: string) => string;
}
const FLAG: Binding = { name: '--role', example: (role, model) => `--role ${role}=${model}` };
const KEY: Binding = { name: 'role', example: (role, model) => `role = "${role}=${model}"` };

/** The model of a stage, and the place of its kept replies. */
async function resolvedModel(
  role: StageRole,
  options: RoleOptions,
  { binding, variables }: { readonly binding: Binding; readonly variables: NodeJS.ProcessEnv },
) {
  loadEnvironmentFile('.env', variables);
  const table = await tableOf(role, options, binding);
  const declarations: RoleDeclarations = { [role]: { about: ABOUT[role], default: null } };
  const example = binding.example(role, 'MODEL@URL');
  if (table.use === 'policy')
    throw new ConfigError(`A stage of a round has no policy, so role ${role} cannot be bound to it. Name a server: ${example}.`);
  if (table.use === 'builtin') throw new ConfigError(`No model of the package plays the role ${role}. Name a server: ${example}.`);
  if (table.use === undefined && table.base_url === undefined)
    throw new ConfigError(
      `This stage asks a model, and none is named. Name one, for example with ${binding.example(role, 'gpt-5-mini@https://api.openai.com/v1')}.`,
    );
  const cache = table.cache ?? options.output.replace(/\.jsonl$/, '.replies.jsonl');
  const resolved = await resolveRoles(declarations, { [role]: { ...table, cache } }, { variables });
  return { cache, resolved };
}

/** `images`: those in the questions. Replies are kept in `<output>.replies.jsonl` unless the table names another cache. Rejects with ConfigError if no model is bound. */
export async function openStageModel(
  role: StageRole,
  options: RoleOptions,
  { variables, note, secrets, signal }: StageContext,
  images?: ImageStore,
): Promise<Pick<AskOptions, 'role' | 'model' | 'redact' | 'keptIn' | 'signal'> & AsyncDisposable> {
  await using opened = new Disposers();
  const { cache, resolved } = await resolvedModel(role, options, { binding: FLAG, variables });
  for (const secret of secretsOf({ roles: resolved })) secrets.add(secret);
  const folder = dirname(options.output);
  makeFolder(folder);
  // Before the replies are read: a second process would pay for all of them, too.
  opened.use(await lockRun(folder, basename(options.output)));
  const roles = opened.use(await openRoles(resolved, { policy: NO_ONE, images, onNotice: note, secrets, signal }));
  const parts = opened.move();
  const asked = roles.models.models[role]!;
  return {
    role,
    signal,
    redact: secretRedactor([...secrets]),
    keptIn: cache === 'memory' || cache === 'off' ? null : cache,
    model: { name: roles.identities[role]!, generate: (messages, request) => asked.generate(messages, request) },
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

async function tableOf(role: StageRole, { role: fromFlag = {}, config }: RoleOptions, { name, example }: Binding): Promise<RoleTable> {
  const fromFile = config === undefined ? {} : await tablesIn(config, role);
  const other = Object.keys(fromFlag).find((each) => each !== role);
  if (other !== undefined)
    throw new ConfigError(`${name} names the role ${other}, but this stage asks the role ${role}; give ${example(role, 'MODEL@URL')}`);
  return mergeRoleTables({ [role]: fromFile }, fromFlag)[role]!;
}

async function tablesIn(path: string, role: StageRole): Promise<RoleTable> {
  const document = await readToml(path);
  assertKnownKeys(document, ['roles'], path);
  const tables = checkRoleTables(document['roles'] ?? {}, path);
  assertKnownKeys(tables, Object.keys(ABOUT), `[roles] of ${path}`);
  return tables[role] ?? {};
}
