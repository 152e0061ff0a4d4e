/** What `vf-rounds bucket`, `review`, `focus` and `verify` make of a trace, and what they refuse. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { chatServer } from '../../models/chat-server.ts';
import { rowsText, traceText } from '../../rounds/trace-lines.ts';
import { group, stagesFolder } from './stages-folder.ts';

const PAGE_ROWS = join(import.meta.dirname, '../../../packages/vf-search-models/datasets/page-world/train.jsonl');
const { at, file, rowsOf, idsOf, manifest, rounds, done, world } = stagesFolder();

describe('vf-rounds bucket', () => {
  it('divides prompts at 0.1 and 0.7, both in A, from easy to hard, with the mean in the row', async () => {
    const { trace, rows } = world();
    await done('bucket', '--trace', trace, '--rows', rows, '-o', 'r1');
    expect(idsOf('r1/bucket-a.jsonl')).toEqual(['near', 'far']);
    expect(rowsOf('r1/bucket-a.jsonl')[0]).toEqual({
      ...(JSON.parse(rowsText(['near'])) as object),
      extra_info: { question: 'What is near?', file_name: 'near', reference_page: [1], phase1_ndcg: 0.7 },
    });
    expect(idsOf('r1/bucket-b.jsonl')).toEqual(['easy']);
    expect(idsOf('r1/bucket-0.jsonl')).toEqual(['gated', 'lost']);
    expect(rowsOf('r1/review.jsonl')).toMatchObject([
      { id: 'gated', exclude: false, reason: '', reasons: ['never_valid_format'] },
      { id: 'lost', reasons: ['document_never_found', 'page_never_found'], pages_read: ['else_3'], golden_pages: ['lost_1'] },
    ]);
    expect(manifest('r1/bucket')).toMatchObject({
      complete: true,
      counts: { rows: 6, prompts: 5, bucket_a: 2, bucket_b: 1, bucket_0: 2, untraced: 1, unknown: 0, rollouts: 20 },
      rule: { measure: 'ndcg', low: 0.1, high: 0.7 },
    });
  });

  it('takes a data set of the package for rows, as vf-rounds run does', async () => {
    const { id } = JSON.parse(readFileSync(PAGE_ROWS, 'utf8').split('\n')[0]!) as { id: string };
    file('trace.jsonl', traceText(group(id, [0.5, 0.5])));
    await done('bucket', '--trace', 'trace.jsonl', '--rows', 'page-world', '-o', 'r1');
    expect(idsOf('r1/bucket-a.jsonl')).toEqual([id]);
    const { status, stderr } = await rounds('bucket', '--trace', 'trace.jsonl', '--rows', 'page-worlds', '-o', 'r2');
    expect({ status, stderr }).toEqual({
      status: 2,
      stderr: expect.stringMatching(
        /^vf-rounds: The file page-worlds does not exist, and no data set of the package has this name\. Choose .*\bpage-world\b.* \(bundled\) or the path of a \.jsonl or \.parquet file\n$/,
      ) as string,
    });
    const missing = await rounds('bucket', '--trace', 'trace.jsonl', '--rows', 'page-worlds.jsonl', '-o', 'r2');
    expect(missing).toMatchObject({
      status: 2,
      stderr: 'vf-rounds: The file page-worlds.jsonl does not exist; name the rows that vf-train was given\n',
    });
  });

  it('names only data sets of the package that it takes', async () => {
    const { trace } = world();
    const { stderr } = await rounds('bucket', '--trace', trace, '--rows', 'nope', '-o', 'r1');
    const named = /Choose (.*) \(bundled\)/.exec(stderr)?.[1]?.split(', ') ?? [];
    const { datasets } = JSON.parse(readFileSync(join(import.meta.dirname, '../../../datasets/MANIFEST.json'), 'utf8')) as {
      datasets: Record<string, { splits: Record<string, string> }>;
    };
    expect(named).toEqual(Object.keys(datasets).filter((name) => datasets[name]!.splits['train'] !== undefined));
  });

  it('names prompts that the rows do not have, or counts them', async () => {
    const { trace } = world();
    const rows = file('few.jsonl', rowsText(['near']));
    const refused = await rounds('bucket', '--trace', trace, '--rows', rows, '-o', 'r1');
    expect(refused.status).toBe(2);
    expect(refused.stderr).toBe(
      'vf-rounds: The trace has the prompts "easy", "far", "gated" and 1 more, which the rows do not have; give the rows that were trained on, or --leave-out-unknown\n',
    );
    expect(readdirSync(at(''))).not.toContain('r1');
    await done('bucket', '--trace', trace, '--rows', rows, '-o', 'r1', '--leave-out-unknown');
    expect(manifest('r1/bucket').counts).toMatchObject({ prompts: 1, unknown: 4, bucket_a: 1 });
  });
});

describe('vf-rounds review and focus', () => {
  it('leave out what lists say, keep the hard prompts in their order and add others', async () => {
    const { trace, rows } = world();
    await done('bucket', '--trace', trace, '--rows', rows, '-o', 'r1');
    file('wrong.jsonl', `${JSON.stringify({ id: 'gated', reason: 'answer wrong' })}\n${JSON.stringify({ id: 'lost', exclude: false })}\n`);
    await done('review', '--rows', 'r1/bucket-0.jsonl', '--exclude', 'wrong.jsonl', '-o', 'r1/kept.jsonl');
    expect([idsOf('r1/kept.jsonl'), idsOf('r1/kept.excluded.jsonl')]).toEqual([['lost'], ['gated']]);
    await done('focus', '--trace', trace, '--rows', 'r1/bucket-a.jsonl', '--add', 'r1/kept.jsonl', '-o', 'r1/round.jsonl');
    expect(idsOf('r1/round.jsonl')).toEqual(['far', 'lost']);
    await done('focus', '--trace', trace, '--rows', rows, '--threshold', '0.25', '--exclude', 'wrong.jsonl', '-o', 'r1/all.jsonl');
    expect(idsOf('r1/all.jsonl')).toEqual(['lost', 'far', 'near']);
    expect(manifest('r1/all').counts).toMatchObject({ rows: 6, hard: 4, listed: 2, excluded: 1, kept: 3 });
  });

  it.each([
    [
      'a row in two lists',
      [{ id: 'near', reason: 'x' }],
      [{ id: 'near', reason: 'y' }],
      'b.jsonl:1 decides about "near", as a.jsonl:1 does; remove it from one of the lists',
    ],
    ['a row without a reason', [{ id: 'near', exclude: true }], [], 'a.jsonl:1: "reason" must say why "near" is left out, got nothing'],
    ['a decision that is text', [{ id: 'near', exclude: 'yes', reason: 'x' }], [], 'a.jsonl:1: "exclude" must be true or false, got "yes"'],
    ['a row that is not there', [{ id: 'stranger', reason: 'x' }], [], 'A review list leaves out the prompt "stranger", which the rows do not have'],
    ['a row without an id', [{ reason: 'x' }], [], 'a.jsonl:1: "id" must be the id of the row, text or a number, got nothing'],
  ])('refuse %s in one line', async (_, a, b, message) => {
    const { rows } = world();
    for (const [name, list] of [
      ['a', a],
      ['b', b],
    ] as const)
      file(`${name}.jsonl`, list.map((line) => `${JSON.stringify(line)}\n`).join(''));
    const { status, stderr } = await rounds('review', '--rows', rows, '--exclude', 'a.jsonl', '--exclude', 'b.jsonl', '-o', 'kept.jsonl');
    expect(status).toBe(2);
    expect(stderr).toContain(`vf-rounds: ${message}`);
    expect(stderr.trimEnd()).not.toContain('\n');
    expect(readdirSync(at(''))).not.toContain('kept.jsonl');
  });
});

describe('the rows that a stage passes on', () => {
  const PLAYED = '{ "id": "near",\t"score": 1.0, "seed": 12345678901234567890, "word": "\\u00e9", "extra_info": {"weight": 2.50} }';
  const TAKEN = '{"id":"far","score":1e3,"extra_info":null} \r';

  it('keep their lines byte for byte; in a row that gets a column, numbers keep their digits', async () => {
    const { trace } = world();
    file('rows.jsonl', `${TAKEN}\n\n${PLAYED}`);
    file('list.jsonl', `${JSON.stringify({ id: 'near', reason: 'x' })}\n`);
    file('nobody.jsonl', `${JSON.stringify({ id: 'near', exclude: false })}\n`);
    const text = (name: string) => readFileSync(at(name), 'utf8');
    await done('review', '--rows', 'rows.jsonl', '--exclude', 'nobody.jsonl', '-o', 'all.jsonl');
    expect(text('all.jsonl')).toBe(`${TAKEN}\n${PLAYED}\n`);
    await done('focus', '--trace', trace, '--rows', 'rows.jsonl', '--threshold', '1', '-o', 'focused.jsonl');
    expect(text('focused.jsonl')).toBe(`${TAKEN}\n${PLAYED}\n`);
    await done('review', '--rows', 'rows.jsonl', '--exclude', 'list.jsonl', '-o', 'kept.jsonl');
    expect(text('kept.jsonl')).toBe(`${TAKEN}\n`);
    const grown = (more: string) => `{"id":"near","score":1.0,"seed":12345678901234567890,"word":"é","extra_info":{"weight":2.50,${more}}}\n`;
    expect(text('kept.excluded.jsonl')).toBe(grown('"excluded":"x"'));
    await done('bucket', '--trace', trace, '--rows', 'rows.jsonl', '--leave-out-unknown', '-o', 'r1');
    expect(text('r1/bucket-a.jsonl')).toBe(`${grown('"phase1_ndcg":0.7')}{"id":"far","score":1e3,"extra_info":{"phase1_ndcg":0.1}}\n`);
  });

  it('may have ids beyond 2^53, which a review and a stage that reads a trace tell apart', async () => {
    const [first, second] = ['{"id": 12345678901234567890}', '{"id": 12345678901234567891}'];
    file('rows.jsonl', `${first}\n${second}\n`);
    file('list.jsonl', '{"id": 12345678901234567891, "reason": "x"}\n');
    await done('review', '--rows', 'rows.jsonl', '--exclude', 'list.jsonl', '-o', 'kept.jsonl');
    expect(readFileSync(at('kept.jsonl'), 'utf8')).toBe(`${first}\n`);
    file('big.jsonl', traceText(['12345678901234567890', '12345678901234567891'].flatMap((id) => group(id, [1, 0.4], [1, 1]))));
    await done('bucket', '--trace', 'big.jsonl', '--rows', 'rows.jsonl', '-o', 'r1');
    expect(readFileSync(at('r1/bucket-a.jsonl'), 'utf8')).toMatch(
      /^\{"id":12345678901234567890,"extra_info":.*\n\{"id":12345678901234567891,"extra_info":.*\n$/,
    );
  });
});

describe('vf-rounds verify', () => {
  it('lists low scores with right pages first; a vetter decides, is asked once, and its list leaves rows out', async () => {
    const low = [...group('wrong', [1, 1], [0, 0], { answer: '42' }), ...group('weak', [0.6, 0.6], [0.2, 0.2]), ...group('blind', [0, 0.4], [0, 0])];
    file('trace.jsonl', traceText([...low, ...group('fine', [1, 1], [1, 1])]));
    file('rows.jsonl', rowsText(['blind', 'fine', 'weak', 'wrong']));
    await done('verify', '--trace', 'trace.jsonl', '--rows', 'rows.jsonl', '-o', 'list.jsonl');
    expect(rowsOf('list.jsonl')).toMatchObject([
      { id: 'wrong', exclude: false, verdict: null, suspicion: 'right_pages_zero_score', answers: ['42'], reference: 'the wrong' },
      { id: 'weak', suspicion: 'right_pages_low_score' },
      { id: 'blind', suspicion: 'wrong_pages' },
    ]);
    let asked = 0;
    await using server = await chatServer(({ messages }) => {
      asked++;
      const { question } = JSON.parse(messages.at(-1)!.content) as { question: string };
      return JSON.stringify({ verdict: question.includes('wrong') ? 'GT_ERROR' : 'GEN_ERROR', reason: 'seen on the page' });
    });
    const vetted = () =>
      done('verify', '--trace', 'trace.jsonl', '--rows', 'rows.jsonl', '-o', 'vetted.jsonl', '--role', `vetter=m@${server.url}/v1`);
    await vetted();
    expect(asked).toBe(3);
    const first = readFileSync(at('vetted.jsonl'));
    await vetted();
    expect(asked).toBe(3);
    expect(readFileSync(at('vetted.jsonl'))).toEqual(first);
    expect(rowsOf('vetted.jsonl')[0]).toMatchObject({ id: 'wrong', exclude: true, reason: 'GT_ERROR: seen on the page' });
    await done('focus', '--trace', 'trace.jsonl', '--rows', 'rows.jsonl', '--exclude', 'vetted.jsonl', '--threshold', '0.3', '-o', 'next.jsonl');
    expect(idsOf('next.jsonl')).toEqual(['blind', 'weak']);
  });
});
