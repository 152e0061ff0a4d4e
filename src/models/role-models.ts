/**
 * The models of a run by role: each with one limiter, one cache, one budget and one tally, whatever rollout asks. Which model stands behind a
 * role was decided by whoever opens them.
 */
import { resolve } from 'node:path';
import { Disposers } from '../core/disposers.ts';
import type { AskedRecord, Model, Models, RoleModels, RolloutModels } from '../core/model.ts';
import { Random } from '../core/random.ts';
import type { RoleStats } from '../schemas/role-stats.ts';
import { Limiter } from '../core/limiter.ts';
import { type Budget, budgeted } from './budgeted.ts';
import { cached } from './cached.ts';
import { limited } from './limited.ts';
import { measured } from './measured.ts';
import { recorded } from './recorded.ts';
import { ReplyFile } from './reply-file.ts';
import { retried } from './retried.ts';
import { RoleTally } from './role-tally.ts';
import type { TimedModel } from './timed-model.ts';

/** What answers in a role, and its limits. */
export interface RoleBinding {
  readonly model: Model;
  /** Calls under way at a time. @default 32 */
  readonly maxConcurrent?: number;
  /** Deadline of one attempt, in milliseconds. @default 600000 */
  readonly timeoutMs?: number;
  /** Attempts beyond the first, for failures that may pass. @default 3 */
  readonly maxRetries?: number;
  /** First back-off; doubles from there. @default 500 */
  readonly baseDelayMs?: number;
  /** @default none */
  readonly budget?: Partial<Budget>;
  /** Keeps replies to greedy requests: `identity` says who answers and where, `path` names a file that outlives the run. @default none */
  readonly cache?: { readonly identity: string; readonly path: string | null };
}

export type RoleBindings = Readonly<Record<string, RoleBinding>>;

/** Defaults of a role's limits. */
export const ROLE_DEFAULTS = { maxConcurrent: 32, timeoutMs: 600_000, maxRetries: 3 } as const;

export interface OpenedRoleModels extends RoleModels, AsyncDisposable {
  /** Outside any rollout: what they are asked counts, and is recorded nowhere. */
  readonly models: Models;
  /** By role, as it stands. */
  readonly stats: ReadonlyMap<string, RoleStats>;
  /** Frees files. The models themselves belong to whoever opened them. Safe to call twice. */
  close(): Promise<void>;
}

export interface OpenRoleModelsOptions {
  /** A line for the user: a cache that can no longer be written. @default nobody is told */
  readonly onNotice?: (line: string) => void;
}

/** Throws ConfigError for a limit that is out of range, and for a cache file that cannot be opened. */
export async function openRoleModels(bindings: RoleBindings, { onNotice = () => {} }: OpenRoleModelsOptions = {}): Promise<OpenedRoleModels> {
  await using opened = new Disposers();
  // Roles that name the same file share it.
  const files = new Map<string, ReplyFile>();
  const parts = new Map<string, { readonly model: TimedModel; readonly tally: RoleTally }>();
  for (const [role, binding] of Object.entries(bindings)) {
    const path = binding.cache?.path ?? null;
    if (path !== null && !files.has(resolve(path))) {
      const file = await ReplyFile.open(resolve(path), { onNotice });
      opened.defer(() => file.close());
      files.set(resolve(path), file);
    }
    const tally = new RoleTally();
    const asked = roleModel(role, binding);
    const file = path === null ? null : files.get(resolve(path))!;
    parts.set(role, { model: measured(binding.cache === undefined ? asked : cached(asked, { ...binding.cache, file }), tally), tally });
  }
  const disposers = opened.move();
  const modelsFor = (add: (record: AskedRecord) => void): Models =>
    Object.fromEntries([...parts].map(([role, { model }]) => [role, recorded(model, { role, add })]));
  return {
    models: modelsFor(() => {}),
    forRollout(): RolloutModels {
      const asked: AskedRecord[] = [];
      return { models: modelsFor((record) => void asked.push(record)), asked };
    },
    get stats() {
      return new Map([...parts].map(([role, { tally }]) => [role, tally.stats]));
    },
    close: () => disposers.disposeAsync(),
    [Symbol.asyncDispose]: () => disposers.disposeAsync(),
  };
}

function roleModel(role: string, { model, budget = {}, baseDelayMs, ...limits }: RoleBinding): TimedModel {
  const { maxConcurrent, timeoutMs, maxRetries } = { ...ROLE_DEFAULTS, ...limits };
  const random = Random.fromSeed(0).fork(`role ${role}`);
  const asked = retried(model, { role, timeoutMs, maxRetries, random, ...(baseDelayMs === undefined ? {} : { baseDelayMs }) });
  // The budget is looked at once a call has its slot: what the calls before it spent counts, and a call that is given up while it waits does not.
  return limited(budgeted(asked, { calls: null, tokens: null, ...budget }, { role }), new Limiter(maxConcurrent));
}
