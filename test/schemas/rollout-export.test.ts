import { describe, expect, it } from 'vitest';
import { TokenBuffer } from '../../src/core/token-buffer.ts';
import { bufferColumns } from '../../src/rollouts/rollout-columns.ts';
import { exportLine, exportProblem, type RolloutExport } from '../../src/schemas/rollout-export.ts';

/** A rollout of seven tokens: a prompt, two sampled ones, an observation of two tokens, a sampled one. */
function rollout(images: Parameters<TokenBuffer['appendGiven']>[2] = []): RolloutExport {
  const buffer = new TokenBuffer();
  buffer.appendGiven('prompt', Int32Array.of(1, 2));
  const sample = (...ids: readonly number[]) => ({
    text: 'x'.repeat(ids.length),
    tail: '',
    ids: Int32Array.from(ids),
    logProbs: Float64Array.from(ids, () => -0.5),
    textEnds: Int32Array.from(ids, (_, i) => i + 1),
  });
  buffer.commit(sample(3, 4), 2, 0);
  buffer.appendGiven('observation', Int32Array.of(5, 6), images);
  buffer.commit(sample(7), 1, 0);
  return {
    schema_version: 1,
    rollout_id: 'a/0',
    group_id: 'a',
    example_id: 'a',
    stop_condition: 'completed',
    is_truncated: false,
    reward: 1,
    metrics: {},
    policy: { model: 'm', version: 0 },
    sampling: { temperature: 1, top_p: 1, max_tokens: 4, extra: '{}' },
    logprobs_mode: 'raw',
    tokenizer_hash: null,
    ...bufferColumns(buffer),
  } as RolloutExport;
}

const image = { sha256: 'a'.repeat(64), mediaType: 'image/png', width: 28, height: 28, offset: 0, length: 2 };
const TOKENS =
  '"token_ids":[1,2,3,4,5,6,7],"loss_mask":[0,0,1,1,0,0,1],"logprobs":[null,null,-0.5,-0.5,null,null,-0.5],"prompt_length":2,' +
  '"segments":[{"kind":"prompt","start":0,"end":2,"version":null},{"kind":"model","start":2,"end":4,"version":0},' +
  '{"kind":"observation","start":4,"end":6,"version":null},{"kind":"model","start":6,"end":7,"version":0}]';

describe('exportLine', () => {
  it('writes a rollout of text as it did before there were images, byte for byte', () => {
    expect(exportLine(rollout())).toBe(
      '{"schema_version":1,"rollout_id":"a/0","group_id":"a","example_id":"a","stop_condition":"completed","is_truncated":false,"reward":1.0,"metrics":{},' +
        '"policy":{"model":"m","version":0},"sampling":{"temperature":1.0,"top_p":1.0,"max_tokens":4,"extra":"{}"},"logprobs_mode":"raw","tokenizer_hash":null,' +
        `${TOKENS}}`,
    );
  });

  it('writes the images after the tokens, with their places in the whole sequence', () => {
    const columns = `"images":[{"sha256":"${'a'.repeat(64)}","media_type":"image/png","width":28,"height":28,"offset":4,"length":2}]`;
    expect(exportLine(rollout([image]))).toContain(`${TOKENS},${columns}}`);
  });
});

describe('exportProblem', () => {
  it('finds none in a rollout of text, and none in one with images', () => {
    expect([exportProblem(rollout()), exportProblem(rollout([image]))]).toEqual([null, null]);
  });

  it.each([
    ['among sampled tokens', { offset: 2 }],
    ['half among them', { offset: 5 }],
    ['beyond the end', { offset: 6, length: 3 }],
  ])('names an image that is %s', (_, change) => {
    const shown = rollout([image]);
    const images = shown.images!.map((placed) => ({ ...placed, ...change }));
    expect(exportProblem({ ...shown, images })).toBe('images[0] is not in the tokens that the policy was given');
  });

  it('finds versions within a segment that miss tokens or a version that is not the oldest of them', () => {
    const shown = rollout();
    const at = shown.segments.findIndex(({ kind }) => kind === 'model');
    const { start, end } = shown.segments[at]!;
    const withVersions = (version: number, ...tokens: readonly number[]) => {
      const versions = tokens.map((count, i) => ({ version: i, tokens: count }));
      return exportProblem({ ...shown, segments: shown.segments.map((each, i) => (i === at ? { ...each, version, versions } : each)) });
    };
    expect(end - start).toBe(2);
    expect(withVersions(0, 1, 1)).toBeNull();
    expect(withVersions(0, 1, 2)).toBe(`segments[${at}].versions cover 3 of 2 tokens`);
    expect(withVersions(1, 1, 1)).toBe(`segments[${at}].version is 1, and the oldest of its versions 0`);
  });
});
