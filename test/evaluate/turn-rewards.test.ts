/** The rewards of turns in the files of an evaluation, from which a training reads them. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import { exportRun } from '../../src/evaluate/export-run.ts';
import { readRollouts } from '../../src/evaluate/read-rollouts.ts';
import { recordEvaluation } from '../../src/evaluate/record-evaluation.ts';
import { startEpisode } from '../../src/library/start-episode.ts';
import { exportProblem } from '../../src/schemas/rollout-export.ts';
import { turnsOf } from '../../src/trainer/credit/rollout-turns.ts';
import { RolloutFileSource } from '../../src/trainer/sources/rollout-file-source.ts';
import { RolloutsInMemory } from '../../src/trainer/records/rollouts-in-memory.ts';
import { CountingEnv } from '../rollouts/counting-env.ts';
import { sumsOptions } from './sums-world.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'vf-turns-'));
});
afterEach(() => rm(directory, { recursive: true }));

/** Says nothing after a turn, so that the tokens of two turns follow each other. */
class Silent extends CountingEnv {
  protected override envResponse = async (kept: string) => ({ reward: kept.length / 8, done: kept.includes('stop') });
}

async function exported(environment: CountingEnv, asDemonstrations = false) {
  const client = new ScriptedClient({ turns: ['one;', '', 'stop;'] });
  await recordEvaluation(sumsOptions(directory, { environment, client }));
  const lines: string[] = [];
  await exportRun(directory, async (line) => void lines.push(line), { asDemonstrations });
  return lines;
}

async function trained(lines: readonly string[]) {
  const source = new RolloutFileSource({
    name: 'rollouts.jsonl',
    lines: async function* () {
      yield* lines;
    },
    startsOver: true,
    stepsBefore: 0,
    groupsPerStep: 1,
    rolloutsPerGroup: 1,
    store: new RolloutsInMemory(),
    onRole: () => {},
    temperature: 1,
    tokenizerHash: null,
    vocabularySize: null,
    longest: Infinity,
    onLeftOut: () => {},
  });
  const { trajectories } = await source.take(1, new AbortController().signal);
  return trajectories[0]!;
}

describe('rewards of turns', () => {
  it('are in results.jsonl and in exported rollouts, and a training on them credits the turns that had them', async () => {
    const lines = await exported(new CountingEnv({ turnRewards: { 1: 0.5, 3: 1 } }));
    const results = JSON.parse(await readFile(join(directory, 'results.jsonl'), 'utf8')) as Record<string, unknown>;
    expect(results['turn_rewards']).toEqual([0.5, null, 1]);
    expect(lines[0]).toContain('"turn_rewards":[0.5,null,1.0]');
    const path = join(directory, 'rollouts.jsonl');
    await writeFile(path, lines.join(''));
    for await (const rollout of readRollouts(path)) expect(rollout.turn_rewards).toEqual([0.5, null, 1]);
    expect(turnsOf(await trained(lines)).map(({ reward, start, end }) => [reward, start, end])).toEqual([
      [0.5, 0, 4],
      [null, 4, 4],
      [1, 4, 9],
    ]);
  });

  it('say how many tokens each turn has where two turns follow each other', async () => {
    const lines = await exported(new Silent());
    expect(JSON.parse(lines[0]!)).toMatchObject({ turn_tokens: [4, 0, 5], turn_rewards: [0.5, 0, 0.625] });
    expect(turnsOf(await trained(lines)).map(({ reward, end }) => [reward, end])).toEqual([
      [0.5, 4],
      [0, 4],
      [0.625, 9],
    ]);
  });

  it('are in supervised rows, and nowhere if the environment gave none', async () => {
    expect(JSON.parse((await exported(new Silent(), true))[0]!)).toMatchObject({ turn_rewards: [0.5, 0, 0.625], turn_tokens: [4, 0, 5] });
    await rm(directory, { recursive: true });
    const [line] = await exported(new CountingEnv());
    expect(line).not.toContain('turn_rewards');
    expect(await readFile(join(directory, 'results.jsonl'), 'utf8')).not.toContain('turn_rewards');
  });

  it('of another program are refused if they do not fit its tokens', async () => {
    const rollout = JSON.parse((await exported(new Silent()))[0]!);
    expect(exportProblem({ ...rollout, turn_rewards: [1, 2] })).toBe('turn_rewards has 2 items for 3 turns');
    expect(exportProblem({ ...rollout, turn_tokens: [4, 4] })).toBe('turn_tokens sum to 8, and 9 tokens were sampled');
    const { turn_tokens: _, ...without } = rollout;
    expect(exportProblem(without)).toMatch(/^turn_rewards has 3 items for 1 turns; turn_tokens must say/);
  });

  it('are those of an episode that a harness drives', async () => {
    const environment = new CountingEnv({ turnRewards: { 1: 0.5 } });
    await using episode = await startEpisode(environment, environment.eval.at(0));
    expect(episode.turnRewards).toEqual([]);
    await episode.step('one;');
    await episode.step('stop;');
    expect(episode.turnRewards).toEqual([0.5, null]);
    const odd = new CountingEnv({ turnRewards: { 1: NaN } });
    await using other = await startEpisode(odd, odd.eval.at(0));
    await expect(other.step('one;')).rejects.toThrow("The environment's step gave turn 1 the reward NaN. It must be a finite number, or left out.");
  });
});
