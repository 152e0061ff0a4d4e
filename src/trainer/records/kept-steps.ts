/** Reads the rollouts that a run has kept, for people: those of recent steps, compressed ones and thinned ones. Changes nothing and needs no lock. */
import { join } from 'node:path';
import { ResultsError } from '../../core/errors.ts';
import { readLines } from '../../files/json-lines.ts';
import { RolloutIds } from '../../files/rollout-ids.ts';
import type { Trajectory } from '../trajectory.ts';
import { rewardsPath, withPaidRewards } from './paid-rewards.ts';
import { type Kept, rolloutFiles } from './rollout-archive.ts';
import { parseTrajectory } from './trajectory-record.ts';

export interface KeptStep {
  readonly step: number;
  /** Null for a step with one phase. */
  readonly phase: string | null;
  readonly path: string;
  /** `thin`: without tokens. */
  readonly kept: Kept;
  /** The file of the rewards that its rollouts got later; null if there is none. */
  readonly rewards: { readonly path: string; readonly isPacked: boolean } | null;
}

const ORDER: readonly Kept[] = ['live', 'whole', 'thin'];
const PHASE = /^step-\d+(?:\.([A-Za-z0-9-]+))?\.jsonl$/;

/** Steps and phases in their order. */
export async function keptSteps(directory: string): Promise<readonly KeptStep[]> {
  const byName = new Map<string, KeptStep>();
  const files = await rolloutFiles(directory);
  const rewardsOf = (written: string): KeptStep['rewards'] => {
    const forms = files.filter((file) => file.written === rewardsPath(written)).toSorted((a, b) => ORDER.indexOf(a.kept) - ORDER.indexOf(b.kept));
    return forms.length === 0 ? null : { path: join(directory, forms[0]!.name), isPacked: forms[0]!.kept !== 'live' };
  };
  for (const { name, written, step, kept } of files) {
    const [, phase] = PHASE.exec(written) ?? [];
    if (phase === 'asked' || !PHASE.test(written)) continue;
    const before = byName.get(written);
    // A killed process may have left two forms of one file.
    if (before !== undefined && ORDER.indexOf(before.kept) < ORDER.indexOf(kept)) continue;
    byName.set(written, { step, phase: phase ?? null, path: join(directory, name), kept, rewards: rewardsOf(written) });
  }
  return [...byName.values()];
}

/**
 * The rollouts of a step, with the rewards that they got later: since its last restart, the last line of each. Those of a running step grow. Throws ResultsError for
 * a damaged file, ConfigError for a finished rollout that has two lines. `onLeftOut` gets a sentence about lines that repeat others.
 */
export async function readKeptStep(
  { path, kept, rewards }: Pick<KeptStep, 'path' | 'kept' | 'rewards'>,
  onLeftOut?: (note: string) => void,
): Promise<readonly Trajectory[]> {
  const byId = new Map<string, Trajectory>();
  const ids = new RolloutIds(path);
  for await (const { text, number, isWhole } of readLines(path, { isPacked: kept !== 'live' })) {
    if (text.startsWith('{"restarted"')) for (const each of [byId, ids]) each.clear();
    if (text.startsWith('{"restarted"') || text.startsWith('{"complete"')) continue;
    const parsed = parseTrajectory(text);
    if ('value' in parsed) {
      const { rolloutId, error, policy } = parsed.value;
      if (ids.isNew(rolloutId, { text, number }, { isFinal: error === null, version: policy.version })) byId.set(rolloutId, parsed.value);
    } else if (isWhole)
      throw new ResultsError(`Line ${number} of ${path} is not a rollout of a training step (${parsed.problem}); delete the line or the file`);
  }
  for (const note of ids.notes) onLeftOut?.(note);
  return rewards === null ? [...byId.values()] : withPaidRewards([...byId.values()], rewards);
}
