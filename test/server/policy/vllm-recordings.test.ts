/** The requests that the client's own tests replay, put to this server over the same model: it gives the recorded answers. */
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { comparisons, type RecordedAnswer, shapeOf } from './compare-answers.ts';
import { answerOf, JSON_TYPE, NANO_PATH, nanoServer } from './nano-server.ts';

interface Exchange extends RecordedAnswer {
  readonly method: string;
  readonly path: string;
  readonly body: { readonly temperature?: number; readonly allowed_token_ids?: readonly number[] } | null;
}

const folder = mkdtempSync(join(tmpdir(), 'vf-recordings-'));
afterAll(() => rmSync(folder, { recursive: true }));
const withTemplate = join(folder, 'with-template', 'nano-base');
cpSync(NANO_PATH, withTemplate, { recursive: true });
cpSync(join(import.meta.dirname, '../../vllm/chatml.jinja'), join(withTemplate, 'chat_template.jinja'));

/** Sampled freely, so that two servers draw different tokens. */
const isDrawn = ({ path, body }: Exchange) => path === '/v1/completions' && body?.temperature !== 0 && body?.allowed_token_ids?.length !== 1;
/** The location of the model may differ. */
const withoutRoot = (text: string) => text.replaceAll(/"root":"[^"]*"/g, '"root":"model"');

describe('policyApp', () => {
  it.each([
    ['contract', NANO_PATH],
    ['conversation', NANO_PATH],
    ['chat-template', withTemplate],
  ])('answers every request of %s.json as it was recorded', async (name, modelPath) => {
    await using server = await nanoServer({ engine: { modelPath } });
    const { exchanges } = JSON.parse(readFileSync(join(import.meta.dirname, `../../golden/vllm/${name}.json`), 'utf8')) as { exchanges: Exchange[] };
    expect(exchanges.length).toBeGreaterThan(15);
    for (const exchange of exchanges) {
      const { method, path, body, status, answer } = exchange;
      const sent = body === null ? {} : { body: JSON.stringify(body), headers: JSON_TYPE };
      const { text } = await answerOf(await fetch(`${server.url}${path}`, { method, ...sent }));
      const ours = { status, text, body: JSON.parse(withoutRoot(text)) as { choices: { logprobs: unknown }[] } };
      const theirs = { status, answer: withoutRoot(answer) };
      const pairs = isDrawn(exchange) ? [[keysOf(ours.body), keysOf(JSON.parse(answer))]] : comparisons(ours, theirs);
      for (const [own, wanted] of pairs) expect({ path, body, got: own }).toEqual({ path, body, got: wanted });
    }
    expect(server.failures).toEqual([]);
  });
});

/** The keys of the answer and of its choices. */
function keysOf(body: { readonly choices: readonly object[] }): unknown {
  return [Object.keys(body), body.choices.map((choice) => Object.keys(choice)), shapeOf(body.choices.length)];
}
