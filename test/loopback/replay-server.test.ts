import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { replayServer } from './replay-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-replay-'));
afterAll(() => rmSync(folder, { recursive: true }));
const tape = join(folder, 'tape.json');
const exchange = (answer: string) => ({ method: 'POST', path: '/v1/x', body: { a: 1, b: { c: 2, d: [3] } }, status: 200, answer });
writeFileSync(tape, JSON.stringify({ exchanges: [exchange('first'), exchange('second')] }));

// Skipped while a new recording is made: requests then go to the real server, and nothing is replayed.
describe.skipIf(process.env['VF_VLLM_RECORD'] !== undefined)('replayServer', () => {
  const post = async (url: string, body: unknown) => (await fetch(`${url}/x`, { method: 'POST', body: JSON.stringify(body) })).text();

  it('matches a body whatever the order of its keys, and plays answers in order, then repeats the last one', async () => {
    await using server = await replayServer(tape);
    const answers = [];
    for (let i = 0; i < 3; i++) answers.push(await post(server.url, { b: { d: [3], c: 2 }, a: 1 }));
    expect(answers).toEqual(['first', 'second', 'second']);
  });

  it.for([{ a: 1, b: { c: 2, d: [3, 4] } }, { a: 1 }, { a: 1, b: { c: 2, d: [3] }, seed: 1 }])(
    'fails a test that sends what was never recorded: %j',
    async (body) => {
      const server = await replayServer(tape);
      expect(await post(server.url, body)).toContain('never recorded');
      expect(server.unrecorded).toHaveLength(1);
      await expect(server[Symbol.asyncDispose]()).rejects.toThrow(/only recorded requests/);
    },
  );
});
