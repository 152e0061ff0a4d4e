/** vf-train against a server whose base model is not the trainer's, and against two servers where one is down. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { NANO_PATH, nanoServer } from '../../server/policy/nano-server.ts';
import { TrainFolder } from '../../vllm/train-process.ts';

const OWN = join(import.meta.dirname, '../../../models/nano-base');

it('another base model is refused before the first rollout, with the names of both models and the remedy', async () => {
  await using server = await nanoServer();
  using folder = new TrainFolder();
  const settings = ['evaluation.every=0', 'rollouts.examples_per_step=2'].flatMap((each) => ['--set', each]);
  const begin = (model: string) =>
    folder.start(['search-r1', '--preset', 'laptop', '-b', server.url, '-m', model, '--steps', '1', '-o', '.', ...settings]).ended;
  const { code, stderr } = await begin(OWN);
  expect({ code, stderr }).toMatchObject({ code: 2 });
  expect(stderr).toMatch(
    /base model is not the trainer's: http:\S+ serves nano-base \(.*test\/models\/nano-base\), and the trainer holds .*\/models\/nano-base\. /,
  );
  expect(stderr).toMatch(/differ by \d\.\d+ nats on average\. Start the server with the trainer's model and dtype, or set model\.path \(-m\)/);
  expect(folder.run()).toBeNull();
  expect(await begin(NANO_PATH)).toMatchObject({ code: 0 });
}, 180_000);

it('a run begins with the replicas that answer, and says which does not', async () => {
  await using server = await nanoServer();
  using folder = new TrainFolder();
  const settings = ['evaluation.every=0', 'rollouts.examples_per_step=2'].flatMap((each) => ['--set', each]);
  const urls = `http://127.0.0.1:9/v1,${server.url}`;
  const { code, stderr } = await folder.start([
    'search-r1',
    '--preset',
    'laptop',
    '-b',
    urls,
    '-m',
    NANO_PATH,
    '--steps',
    '1',
    '-o',
    '.',
    ...settings,
  ]).ended;
  expect({ code, stderr }).toMatchObject({ code: 0 });
  expect(stderr).toMatch(/one of 2 policy servers does not answer\. The run begins without it and uses it once it does: .*ECONNREFUSED/);
}, 180_000);
