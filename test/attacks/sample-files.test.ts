/** Files of rollouts that somebody changed, or wrote to be trained on: what no sampler gives is refused by every reader. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readRecords } from '../../src/evaluate/run-records.ts';
import { packArray } from '../../src/schemas/packed-array.ts';
import { TokensSchema } from '../../src/schemas/results.ts';
import { parseTrajectory } from '../../src/trainer/records/trajectory-record.ts';
import { FileSource } from '../../src/viewing/file-source.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';
import { trajectoryLine, writeTraining } from '../viewing/written-runs.ts';
import { exportProblem, type RolloutExport } from '../../src/schemas/rollout-export.ts';
import { isLogProb, isTokenId } from '../../src/schemas/log-prob-range.ts';
import { RolloutFileSource } from '../../src/trainer/sources/rollout-file-source.ts';
import { RolloutsInMemory } from '../../src/trainer/records/rollouts-in-memory.ts';

const GOOD: RolloutExport = {
  schema_version: 1,
  rollout_id: 'a/0',
  group_id: 'a',
  example_id: 'a',
  stop_condition: 'completed',
  is_truncated: false,
  reward: 1,
  metrics: {},
  token_ids: [1, 2, 3],
  loss_mask: [0, 1, 1],
  logprobs: [null, -0.5, -0.25],
  prompt_length: 1,
  segments: [
    { kind: 'prompt', start: 0, end: 1, version: null },
    { kind: 'model', start: 1, end: 3, version: 0 },
  ],
  policy: { model: 'nano', version: 0 },
  sampling: { temperature: 1, top_p: 1, top_k: -1, min_p: 0, max_tokens: 8, repetition_penalty: 1 } as RolloutExport['sampling'],
  logprobs_mode: 'processed',
  tokenizer_hash: null,
};
const HOSTILE: readonly (readonly [string, Partial<RolloutExport>])[] = [
  ['a log-prob above 0', { logprobs: [null, 3, -0.25] }],
  ['a log-prob that no float32 gives', { logprobs: [null, -1e308, -0.25] }],
  ['an id beyond 32 bits', { token_ids: [1, 2 ** 40, 3] }],
  ['an id that wraps around to a small one', { token_ids: [1, 2 ** 32 + 2, 3] }],
  ['an id beyond every vocabulary', { token_ids: [1, 2 ** 24, 3] }],
];

function source(lines: readonly RolloutExport[], onClose = () => {}): RolloutFileSource {
  return new RolloutFileSource({
    name: 'r.jsonl',
    lines: async function* read() {
      try {
        for (const line of lines) yield JSON.stringify(line);
      } finally {
        onClose();
      }
    },
    startsOver: true,
    stepsBefore: 0,
    groupsPerStep: 1,
    rolloutsPerGroup: 2,
    store: new RolloutsInMemory(),
    onRole: () => {},
    temperature: 1,
    tokenizerHash: null,
    vocabularySize: null,
    longest: Infinity,
    onLeftOut: () => {},
  });
}
const { signal } = new AbortController();

describe('a rollout of an export', () => {
  it.each(HOSTILE)('with %s is refused by vf-export, by readers of exports and by vf-train --rollouts', async (_, change) => {
    const rollout = { ...GOOD, ...change };
    expect(exportProblem(rollout)).toMatch(/which no (?:sampler gives|vocabulary has)$/);
    await expect(source([rollout, GOOD]).take(1, signal)).rejects.toThrow(/r\.jsonl:1 is not a rollout in the form of vf-export/);
  });

  it('passes as it was sampled', async () => {
    expect(exportProblem(GOOD)).toBe(null);
    const other = { ...GOOD, rollout_id: 'a/1' };
    expect((await source([GOOD, other]).take(1, signal)).trajectories).toHaveLength(2);
  });

  it('of another row in a group is refused', async () => {
    const other = { ...GOOD, rollout_id: 'b/0', example_id: 'b' };
    await expect(source([GOOD, other]).take(1, signal)).rejects.toThrow(/r\.jsonl:2 has the group_id "a", but the example_id "b" and not "a"/);
  });

  it('that stands in a group twice is refused, and so is one of the same name with other tokens', async () => {
    await expect(source([GOOD, GOOD]).take(1, signal)).rejects.toThrow(/r\.jsonl:2 is the rollout a\/0 of line 1 again, with the same tokens/);
    const again = { ...GOOD, token_ids: [1, 2, 4] };
    await expect(source([GOOD, again]).take(1, signal)).rejects.toThrow(
      /r\.jsonl:2 has the rollout_id "a\/0", as line 1 has\. Give each rollout an id of its own/,
    );
  });
});

describe('a recorded rollout', () => {
  const NATURAL = [
    [20, -0.5],
    [999_999, -Infinity],
    [3, NaN],
  ] as const;
  const FOREIGN = [
    [20, 3, /log-prob 3, which no sampler gives/],
    [20, -1e308, /log-prob -1e\+308/],
    [20, Infinity, /log-prob Infinity/],
    [-1, -0.5, /token id -1, which no vocabulary has/],
    [2 ** 24, -0.5, /token id 16777216/],
  ] as const;
  const recorded = (id: number, logProb: number) => {
    const packed = { ids: packArray(Int32Array.from([20, 21, 22, id, 31])), log_probs: packArray(Float64Array.from([logProb, -1.5])) };
    return parseTrajectory(trajectoryLine({ group: 'a', more: packed }));
  };

  it('of a training is refused where no sampler gave it, by -R, vf-export, the best version and vf-rounds alike', () => {
    for (const [id, logProb] of NATURAL) expect(recorded(id, logProb)).toHaveProperty('value');
    for (const [id, logProb, message] of FOREIGN) expect(recorded(id, logProb)).toMatchObject({ problem: expect.stringMatching(message) as string });
  });

  it('of an evaluation is refused by vf-eval -R and vf-export, with its line', async () => {
    using folder = new TemporaryFolder();
    const line = (rollout: string, id: number, logProb: number) =>
      JSON.stringify({
        rollout_id: rollout,
        token_ids: [1, id],
        loss_mask: [0, 1],
        logprobs: [null, logProb],
        prompt_length: 1,
        segments: [
          { kind: 'prompt', start: 0, end: 1, version: null },
          { kind: 'model', start: 1, end: 2, version: 0 },
        ],
      });
    const read = (id: number, logProb: number) =>
      readRecords(folder.write('tokens.jsonl', `${line('a/0', 7, -1)}\n${line('a/1', id, logProb)}\n`), TokensSchema, () => {});
    expect(await read(20, -0.5)).toMatchObject({ records: 2, endsWhole: true });
    for (const [id, logProb] of [
      [20, 3],
      [20, -1e308],
      [2 ** 24, -0.5],
    ] as const)
      await expect(read(id, logProb)).rejects.toThrow(/^Line 2 of .*tokens\.jsonl has the (?:token id|log-prob) \S+, which no .*Restore the file/);
  });

  it('is shown by vf-view with the words that somebody changed it', async () => {
    using folder = new TemporaryFolder();
    const run = writeTraining(join(folder.path, 't'));
    const changed = trajectoryLine({ group: 'a', more: { log_probs: packArray(Float64Array.from([3, -1.5])) } });
    writeFileSync(join(run, 'rollouts/step-000002.jsonl'), `${changed}\n`);
    const viewed = new FileSource({ root: folder.path, label: 'runs', tokenizers: { given: null, hashOf: () => '' } });
    const [found] = (await viewed.runs()).runs;
    expect(await viewed.tokens({ run: found!.id, set: 'step/2', group: 'a', index: 0 })).toMatchObject({
      texts: null,
      problem: 'The file has the log-prob 3, which no sampler gives: somebody changed it',
    });
  });
});

describe('RolloutFileSource', () => {
  it('closes its file when the run ends before the file does', async () => {
    let isClosed = false;
    const rollouts = ['a', 'b', 'c'].flatMap((group) => [0, 1].map((i) => ({ ...GOOD, group_id: group, rollout_id: `${group}/${i}` })));
    const read = source(rollouts, () => (isClosed = true));
    await read.take(1, signal);
    expect(isClosed).toBe(false);
    await read.close();
    expect(isClosed).toBe(true);
  });
});

describe('what a sampler can have given', () => {
  it('is a finite log-prob of at most 0, but for rounding, and an id of some vocabulary', () => {
    for (const value of [0, 5e-4, -20, -1e4]) expect([value, isLogProb(value)]).toEqual([value, true]);
    for (const value of [NaN, Infinity, -Infinity, 0.01, 3, -1e7, -1e308]) expect([value, isLogProb(value)]).toEqual([value, false]);
    for (const id of [0, 999_999]) expect([id, isTokenId(id)]).toEqual([id, true]);
    for (const id of [-1, 0.5, NaN, 2 ** 24, 2 ** 31, 2 ** 40]) expect([id, isTokenId(id)]).toEqual([id, false]);
  });
});
