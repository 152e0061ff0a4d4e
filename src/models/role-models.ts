/**
 * The models of a run by role. All rollouts share a role's limiter, cache, budget and tally. The caller decides which model plays which role.
 */
import { resolve } from 'node:path';
import { Disposers } from '../core/disposers.ts';
import type { AskedRecord, Model, Models, RoleModels, RolloutModels } from '../core/model.ts';
import { Random } from '../core/random.ts';
import type { RoleStats } from '../schemas/role-stats.ts';
import { Limiter } from '../core/limiter.ts';
import { askedWith, type RoleRequest } from './asked-with.ts';
import { type Budget, budgeted } from './budgeted.ts';
import { cached } from './cached.ts';
import { limited } from './limited.ts';
import { measured } from './measured.ts';
import { recorded } from './recorded.ts';
import { ReplyFile } from './reply-file.ts';
import { retried } from './retried.ts';
import { RoleTally } from './role-tally.ts';
import type { TimedModel } from './timed-model.ts';

/** The model that plays a role, what it is asked with, and its limits. */
export interface RoleBinding extends RoleRequest {
  readonly model: Model;
  /** Concurrent calls, at least 1; further ones wait. @default 32 */
  readonly maxConcurrent?: number;
  /** Deadline of one attempt, in milliseconds. @default 600000 */
  readonly timeoutMs?: number;
  /** Deadline of a call with all its attempts, from its slot on, in milliseconds. @default none */
  readonly totalTimeoutMs?: number;
  /** Attempts after the first, for transient failures. @default 3 */
  readonly maxRetries?: number;
  /** Delay before the first retry, in milliseconds, less up to half; doubles with each further one. @default 1000, so that three retries follow after 1, 2 and 4 s */
  readonly baseDelayMs?: number;
  /** Maximum calls and tokens of the role in this process. @default no limits */
  readonly budget?: Partial<Budget>;
  /** Caches replies to greedy requests. `identity`: the model and its server, part of the key. `path`: a file that outlives the run. @default no cache */
  readonly cache?: { readonly identity: string; readonly path: string | null };
}

/** Bindings by role. */
export type RoleBindings = Readonly<Record<string, RoleBinding>>;

/** Defaults of a role's limits. */
export const ROLE_DEFAULTS = { maxConcurrent: 32, timeoutMs: 600_000, maxRetries: 3, baseDelayMs: 1000 } as const;

export interface OpenedRoleModels extends RoleModels, AsyncDisposable {
  /** For calls outside any rollout, which count in `stats` but are not recorded. */
  readonly models: Models;
  /** Adds the calls of an earlier process of the run to the totals. Roles that are no longer bound are left out. */
  recall(asked: readonly AskedRecord[]): void;
  /** Totals so far, by role. */
  readonly stats: ReadonlyMap<string, RoleStats>;
  /** Closes cache files, but not the models. Safe to call twice. */
  close(): Promise<void>;
}

export interface OpenRoleModelsOptions {
  /** Called with a line for the user when a cache can no longer be written. @default does nothing */
  readonly onNotice?: (line: string) => void;
  /** Removes secrets from replies that are written to cache files. @default no change */
  readonly redact?: (text: string) => string;
}

/**
 * Adds limits, retries, budgets, caches and records to models. Throws ConfigError if a limit is out of range or a cache file cannot be opened.
 * @example
 * await using models = await openRoleModels({ judge: { model: exactMatchJudge(), maxConcurrent: 8 } });
 */
export async function openRoleModels(
  bindings: RoleBindings,
  { onNotice = () => {}, redact = (text) => text }: OpenRoleModelsOptions = {},
): Promise<OpenedRoleModels> {
  await using opened = new Disposers();
  // Roles with the same path share the file.
  const files = new Map<string, ReplyFile>();
  const parts = new Map<string, { readonly model: TimedModel; readonly tally: RoleTally }>();
  for (const [role, binding] of Object.entries(bindings)) {
    const path = binding.cache?.path ?? null;
    if (path !== null && !files.has(resolve(path))) {
      const file = await ReplyFile.open(resolve(path), { onNotice, redact });
      opened.defer(() => file.close());
      files.set(resolve(path), file);
    }
    const tally = new RoleTally();
    const asked = roleModel(role, binding);
    const file = path === null ? null : files.get(resolve(path))!;
    const kept = binding.cache === undefined ? asked : cached(asked, { ...binding.cache, file });
    parts.set(role, { model: askedWith(measured(kept, tally), binding), tally });
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
    recall(asked) {
      for (const record of asked) parts.get(record.role)?.tally.add(record);
    },
    get stats() {
      return new Map([...parts].map(([role, { tally }]) => [role, tally.stats]));
    },
    close: () => disposers.disposeAsync(),
    [Symbol.asyncDispose]: () => disposers.disposeAsync(),
  };
}

function roleModel(role: string, { model, budget = {}, ...limits }: RoleBinding): TimedModel {
  const { maxConcurrent, timeoutMs, totalTimeoutMs, maxRetries, baseDelayMs } = { ...ROLE_DEFAULTS, totalTimeoutMs: Infinity, ...limits };
  const random = Random.fromSeed(0).fork(`role ${role}`);
  const asked = retried(model, { role, timeoutMs, totalTimeoutMs, maxRetries, baseDelayMs, random });
  // The budget is checked after the wait for a slot, when more is known about earlier calls. A call that is cancelled while it waits costs nothing.
  return limited(budgeted(asked, { calls: null, tokens: null, ...budget }, { role }), new Limiter(maxConcurrent));
}
