import { describe, expect, it } from 'vitest';
import { Dataset, type Row } from '../../../src/core/dataset.ts';
import { EnvGroup } from '../../../src/core/env-group.ts';
import { RubricGroup } from '../../../src/core/rubric-group.ts';
import { metric, reward, Rubric, type Score } from '../../../src/core/rubric.ts';
import { SingleTurnEnv } from '../../../src/core/single-turn.ts';
import type { Environment } from '../../../src/core/environment.ts';
import { run, serveWire } from './wire-client.ts';

const rows: readonly Row[] = [{ exampleId: 1, prompt: [{ role: 'user', content: 'Go.' }] }];
const singleTurn = (rubric: Rubric) => new SingleTurnEnv({ id: 'single', eval: new Dataset('rows', rows), rubric });

async function scoresIn(environment: Environment) {
  await using served = await serveWire({ environment });
  const { deltas } = await served.client.ask('run', run({ task_data: { idx: 0 } }));
  const { rewards, metrics } = deltas[0]!.set;
  return { rewards, metrics };
}

describe('episodeRecord', () => {
  const scoresOf = (rubric: Rubric) => scoresIn(singleTurn(rubric));

  it('are the rubric’s terms by name and weight, and its metrics; a metric that failed is null', async () => {
    const broken = metric(
      () => {
        throw new Error('no value');
      },
      { name: 'broken' },
    );
    const funcs = [
      reward(() => 0.5, { name: 'half', weight: 2 }),
      reward(() => 1, { name: 'penalty', weight: -0.25 }),
      metric(() => 3, { name: 'three' }),
      broken,
    ];
    expect(await scoresOf(new Rubric({ funcs }))).toEqual({
      rewards: { half: { score: 0.5, weight: 2 }, penalty: { score: 1, weight: -0.25 } },
      metrics: { three: 3, broken: null },
    });
  });

  it('are one, `reward`, where a rubric adds its terms in another way', async () => {
    class Best extends Rubric {
      override async scoreGroup(contexts: Parameters<Rubric['scoreGroup']>[0]): Promise<readonly Score[]> {
        const scores = await super.scoreGroup(contexts);
        return scores.map(({ metrics }) => ({ metrics, reward: Math.max(...Object.values(metrics)) }));
      }
    }
    const funcs = [reward(() => 0.5, { name: 'half' }), reward(() => 0.75, { name: 'more' })];
    expect(await scoresOf(new Best({ funcs }))).toEqual({ rewards: { reward: { score: 0.75, weight: 1 } }, metrics: { half: 0.5, more: 0.75 } });
  });

  it('are those of every rubric of a group, and of the row’s own environment in a group of environments', async () => {
    const [half, quarter] = [0.5, 0.25].map((value) => new Rubric({ funcs: [reward(() => value, { name: `gives ${value}`, weight: 2 })] }));
    const of = (value: number) => [`gives ${value}`, { score: value, weight: 2 }];
    expect((await scoresOf(new RubricGroup([half!, quarter!]))).rewards).toEqual(Object.fromEntries([of(0.5), of(0.25)]));
    const environments = { halves: singleTurn(half!), quarters: singleTurn(quarter!) };
    expect((await scoresIn(new EnvGroup({ id: 'both', environments }))).rewards).toEqual(Object.fromEntries([of(0.5)]));
  });

  it('are one where two rubrics of a group give a name different weights', async () => {
    const [one, other] = [1, 3].map((weight) => new Rubric({ funcs: [reward(() => 0.5, { name: 'same', weight })] }));
    expect(await scoresOf(new RubricGroup([one!, other!]))).toEqual({ rewards: { reward: { score: 2, weight: 1 } }, metrics: { same: 1 } });
  });
});
