/** The contract of every environment that plays its rows itself and asks models of its own. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NO_POLICY } from '../../src/clients/no-policy.ts';
import type { Row } from '../../src/core/dataset.ts';
import type { Environment } from '../../src/core/environment.ts';
import { EnvGroup } from '../../src/core/env-group.ts';
import { CancelledError, ConfigError } from '../../src/core/errors.ts';
import { Random } from '../../src/core/random.ts';
import { noPolicyFor } from '../../src/rollouts/agent-policy.ts';
import type { Rollout } from '../../src/rollouts/rollout.ts';
import { runRollouts, type RunOptions } from '../../src/rollouts/run-rollouts.ts';

export interface OpenedProgram extends AsyncDisposable {
  /** With at least three rows. */
  readonly environment: Environment;
}

/** Plays every row once, without a policy; `more` overrides the options of the run. */
export async function playProgramRows<R extends Row>(environment: Environment<R>, more: Partial<RunOptions<R>> = {}): Promise<Rollout<R>[]> {
  const groups = [...environment.eval].map((row) => ({ row, indices: [0] }));
  const options = {
    environment,
    client: NO_POLICY,
    sampling: { temperature: 1, topP: 1 },
    maxTokens: null,
    timeoutMs: null,
    maxConcurrent: 4,
    seed: 0,
    signal: new AbortController().signal,
    ...more,
  };
  const rollouts: Rollout<R>[] = [];
  for await (const group of runRollouts(groups, options)) rollouts.push(...group.rollouts);
  return rollouts.toSorted((a, b) => Number(a.row.exampleId) - Number(b.row.exampleId));
}

export function programContract(open: () => Promise<OpenedProgram>): void {
  describe('contract', () => {
    let opened: OpenedProgram;
    let environment: Environment;
    beforeAll(async () => {
      opened = await open();
      environment = opened.environment;
    });
    afterAll(() => opened[Symbol.asyncDispose]());

    it('plays all rows at once without a policy, and gives text, state and a reward, but no tokens', async () => {
      const rollouts = await playProgramRows(environment);
      expect(rollouts.length).toBeGreaterThanOrEqual(3);
      for (const { error, branches, generations, reward, segments, turns, policy } of rollouts) {
        expect({ error, tokens: branches.map(({ tokens }) => tokens), generations }).toEqual({ error: null, tokens: [null], generations: [] });
        expect(reward).toEqual(expect.any(Number));
        expect(turns).toBe(segments.filter(({ kind }) => kind === 'model').length);
        expect(policy).toEqual({ version: 0, model: environment.programModels?.name ?? environment.id });
      }
    });

    it('gives a row the same alone as among others', async () => {
      const rollouts = await playProgramRows(environment);
      const row = environment.eval.at(1);
      const alone = await environment.play!(row, { random: Random.fromSeed(1), policy: noPolicyFor('it'), signal: new AbortController().signal });
      const among = rollouts.find((rollout) => rollout.row === row)!;
      expect(alone.segments).toEqual(among.segments);
    });

    it('records nothing after the run is cancelled', async () => {
      const stop = new AbortController();
      stop.abort(new CancelledError('Interrupted by the user'));
      await expect(playProgramRows(environment, { signal: stop.signal })).rejects.toBeInstanceOf(CancelledError);
    });

    it('leaves nothing to a policy: it starts no episode, and no group takes it', async () => {
      await expect(environment.start(environment.eval.at(0), { random: Random.fromSeed(0), signal: new AbortController().signal })).rejects.toThrow(
        ConfigError,
      );
      expect(() => new EnvGroup({ id: 'mixed', environments: { own: environment } })).toThrow(
        'The environment group mixed has own, which asks models of its own and not the policy of the group. Evaluate it alone.',
      );
    });
  });
}
