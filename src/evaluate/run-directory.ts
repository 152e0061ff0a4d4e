import { createHash, randomBytes } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunIdentity } from './evaluation-options.ts';
import { redactionOf } from './redaction.ts';
import { canonical } from './run-config.ts';
import { readMetadata } from './run-records.ts';

/** File systems allow 255 bytes in a name; some encrypted ones 143. */
const LONGEST_NAME = 140;

/** A path for a new run in v0's layout: `<base>/evals/<env_id>--<model, "/" as "--">/<8 hex digits>`. Creates nothing. */
export function newRunDirectory(base: string, envId: string, model: string): string {
  return join(runsDirectory(base, envId, model), randomBytes(4).toString('hex'));
}

/** The newest run under `base` of the same environment, arguments and model that lacks rollouts or has failed ones; null if there is none. */
export async function latestIncompleteRun(base: string, run: RunIdentity, secrets: readonly string[] = []): Promise<string | null> {
  const directory = runsDirectory(base, run.envId, run.model);
  const redaction = redactionOf(secrets);
  const wanted = canonical(
    redaction.settings({ id: run.envId, args: plain(run.envArgs), model: run.model, kind: run.policyKind, roles: run.roles ?? {} }),
  );
  let newest: { path: string; startedAt: string } | null = null;
  for (const name of await readdir(directory).catch(() => [])) {
    const path = join(directory, name);
    const metadata = await readMetadata(path).catch(() => null);
    if (metadata === null || (metadata.complete && metadata.num_errored === 0)) continue;
    const { env_id: id, env_args: args, model, policy, config } = metadata;
    if (canonical({ id, args, model, kind: policy.kind, roles: config['roles'] ?? {} }) !== wanted) continue;
    if (newest === null || metadata.started_at > newest.startedAt) newest = { path, startedAt: metadata.started_at };
  }
  return newest?.path ?? null;
}

/** Data as the metadata file holds it. */
function plain(data: unknown): unknown {
  return JSON.parse(JSON.stringify(data));
}

function runsDirectory(base: string, envId: string, model: string): string {
  const name = `${safeName(envId)}--${safeName(model)}`;
  if (Buffer.byteLength(name) <= LONGEST_NAME) return join(base, 'evals', name);
  const digest = createHash('sha256').update(name).digest('hex').slice(0, 8);
  return join(
    base,
    'evals',
    `${Buffer.from(name)
      .subarray(0, LONGEST_NAME - 12)
      .toString('utf8')
      .replace(/\ufffd$/, '')}--${digest}`,
  );
}

/** A single path component: separators become `--`, control characters `_`, and a leading dot cannot leave the folder. */
function safeName(name: string): string {
  return (
    name
      .replace(/[/\\]/g, '--')
      .replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '_')
      .replace(/^\.+/, '_') || '_'
  );
}
