/** vf-train against a server that it did not start: one whose base model is not the trainer's, one of two that is down; and the models that a run leaves there. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { NANO_PATH, nanoServer, type NanoServer } from '../../server/policy/nano-server.ts';
import { loopback, sendJson } from '../../transport/loopback.ts';
import { TrainFolder } from '../../vllm/train-process.ts';

const OWN = join(import.meta.dirname, '../../../models/nano-base');
/** Its rewards nearly always differ, and a server samples with other random numbers each time: a step whose rewards are equal leaves a run without a result. */
const TOY = join(import.meta.dirname, 'toy-with-faults.ts');
const SHORT = [TOY, '--preset', 'laptop', '-n', '2', '-r', '4', '--steps', '1', '-o', '.'];
const settings = (...all: readonly string[]) =>
  ['evaluation.every=0', 'rollouts.max_tokens=16', 'backend.threads=1', ...all].flatMap((each) => ['--set', each]);

/** The names of the models that a server has. */
async function modelsAt(server: NanoServer): Promise<readonly string[]> {
  const { data } = (await server.get('/v1/models')).body as { readonly data: readonly { readonly id: string }[] };
  return data.map(({ id }) => id);
}

it('another base model is refused before the first rollout, with the names of both models and the remedy; a run that ends leaves the server its base alone', async () => {
  await using server = await nanoServer();
  using folder = new TrainFolder();
  const begin = (model: string) => folder.runInProcess([...SHORT, '-b', server.url, '-m', model, ...settings()]).ended;
  const { code, stderr } = await begin(OWN);
  expect({ code, stderr }).toMatchObject({ code: 2 });
  expect(stderr).toMatch(
    /base model is not the trainer's: http:\S+ serves nano-base \(.*test\/models\/nano-base\), and the trainer holds .*\/models\/nano-base\. /,
  );
  expect(stderr).toMatch(/differ by \d\.\d+ nats on average\. Start the server with the trainer's model and dtype, or set model\.path \(-m\)/);
  expect(folder.run()).toBeNull();
  expect(await begin(NANO_PATH)).toMatchObject({ code: 0 });
  expect(await modelsAt(server)).toEqual(['nano-base']);
}, 180_000);

it('a server that would refuse the adapters of a run is found before anything is sampled', async () => {
  await using server = await nanoServer({ maxLoraRank: 4 });
  using folder = new TrainFolder();
  const { code, stderr } = await folder.runInProcess([...SHORT, '--steps', '2', '-b', server.url, '-m', NANO_PATH, ...settings()]).ended;
  expect({ code, stderr }).toMatchObject({ code: 2 });
  expect(stderr).toMatch(
    /The policy server cannot serve this run, which needs room for 2 adapters of rank 8\. At http:.*: Rank 8 exceeds the server's limit of 4/,
  );
  expect([folder.run(), await modelsAt(server)]).toEqual([null, ['nano-base']]);
}, 180_000);

/** What a run says that has this replica in addition to one that answers. */
async function begunWith(replica: string): Promise<string> {
  await using server = await nanoServer();
  using folder = new TrainFolder();
  const urls = `${replica}/v1,${server.url}`;
  const words = [...SHORT, '-b', urls, '-m', NANO_PATH, ...settings('policy.keep_adapter=true')];
  const { code, stderr } = await folder.runInProcess(words).ended;
  expect({ code, stderr }).toMatchObject({ code: 0 });
  expect(await modelsAt(server)).toEqual(['nano-base', expect.stringMatching(/-v0+1$/)]);
  return stderr;
}

const ABSENT = /one of 2 policy servers does not answer\. The run begins without it and uses it once it does: /;

it('a run begins with the replicas that answer, says which does not, and leaves its adapter there if told to keep it', async () => {
  await using busy = await loopback((_, response) => sendJson(response, 503, { error: 'busy' }, { 'retry-after': '3600' }));
  expect(await begunWith(busy.url)).toMatch(new RegExp(`${ABSENT.source}.*503`));
}, 180_000);

it('a run begins without a replica whose port is closed', { tags: 'long', timeout: 180_000 }, async () => {
  expect(await begunWith('http://127.0.0.1:9')).toMatch(new RegExp(`${ABSENT.source}.*ECONNREFUSED`));
});
