/** vf-train against a server whose base model is not the trainer's, and against two servers where one is down. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { NANO_PATH, nanoServer } from '../../server/policy/nano-server.ts';
import { loopback, sendJson } from '../../transport/loopback.ts';
import { TrainFolder } from '../../vllm/train-process.ts';

const OWN = join(import.meta.dirname, '../../../models/nano-base');

it('another base model is refused before the first rollout, with the names of both models and the remedy', async () => {
  await using server = await nanoServer();
  using folder = new TrainFolder();
  const settings = ['evaluation.every=0', 'rollouts.examples_per_step=2', 'backend.threads=1'].flatMap((each) => ['--set', each]);
  const begin = (model: string) =>
    folder.runInProcess(['search-r1', '--preset', 'laptop', '-b', server.url, '-m', model, '--steps', '1', '-o', '.', ...settings]).ended;
  const { code, stderr } = await begin(OWN);
  expect({ code, stderr }).toMatchObject({ code: 2 });
  expect(stderr).toMatch(
    /base model is not the trainer's: http:\S+ serves nano-base \(.*test\/models\/nano-base\), and the trainer holds .*\/models\/nano-base\. /,
  );
  expect(stderr).toMatch(/differ by \d\.\d+ nats on average\. Start the server with the trainer's model and dtype, or set model\.path \(-m\)/);
  expect(folder.run()).toBeNull();
  expect(await begin(NANO_PATH)).toMatchObject({ code: 0 });
}, 180_000);

/** What a run says that has this replica in addition to one that answers. */
async function begunWith(replica: string): Promise<string> {
  await using server = await nanoServer();
  using folder = new TrainFolder();
  const settings = ['evaluation.every=0', 'rollouts.examples_per_step=2', 'backend.threads=1'].flatMap((each) => ['--set', each]);
  const urls = `${replica}/v1,${server.url}`;
  const words = ['search-r1', '--preset', 'laptop', '-b', urls, '-m', NANO_PATH, '--steps', '1', '-o', '.', ...settings];
  const { code, stderr } = await folder.runInProcess(words).ended;
  expect({ code, stderr }).toMatchObject({ code: 0 });
  return stderr;
}

const ABSENT = /one of 2 policy servers does not answer\. The run begins without it and uses it once it does: /;

it('a run begins with the replicas that answer, and says which does not', async () => {
  await using busy = await loopback((_, response) => sendJson(response, 503, { error: 'busy' }, { 'retry-after': '3600' }));
  expect(await begunWith(busy.url)).toMatch(new RegExp(`${ABSENT.source}.*503`));
}, 180_000);

it('a run begins without a replica whose port is closed', { tags: 'long', timeout: 180_000 }, async () => {
  expect(await begunWith('http://127.0.0.1:9')).toMatch(new RegExp(`${ABSENT.source}.*ECONNREFUSED`));
});
