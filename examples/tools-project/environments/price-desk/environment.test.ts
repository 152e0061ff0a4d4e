import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from 'vf-search';
import { loadEnvironment } from './environment.ts';

void test('price-desk answers calls, shows its errors to the model, and ends without a call', async () => {
  const environment = loadEnvironment();
  const { signal } = new AbortController();
  const ended = { finish: 'stop', stopReason: null, signal } as const;
  const row = environment.eval.at(0);
  const episode = await environment.start(row, { random: Random.fromSeed(0), signal });
  const call = (item: string, i: number) => ({ id: `call0000${i}`, name: 'find_price', args: { item }, text: '' });
  const { observation } = await episode.step('', { ...ended, toolCalls: [call('apple', 0), call('anvil', 1)] });
  const answers = observation !== null && 'messages' in observation ? observation.messages.map(({ content }) => content) : [];
  assert.deepEqual(answers, ['40', 'Error: no item anvil; there are apple, bread, cheese, jam, milk, rice']);
  assert.equal((await episode.step('<total> 1 </total>', { ...ended, toolCalls: [] })).stop, 'no_tools_called');
  await episode[Symbol.asyncDispose]();
  await environment.close();
});

void test('no row of the evaluation is a row of the training', () => {
  const { train, eval: held } = loadEnvironment();
  const trained = new Set([...train].map(({ info }) => info.items.join()));
  assert.deepEqual(
    [...held].filter(({ info }) => trained.has(info.items.join())),
    [],
  );
});
