/** `vf-rounds` in child processes: what each stage makes of a trace, what it refuses, and what a kill leaves. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, linkSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { WireRoundManifest } from '../../src/schemas/round-manifest.ts';
import { chatServer } from '../models/chat-server.ts';
import { rowsText, type SomeRollout, traceText } from '../rounds/trace-lines.ts';

const SCRIPT = join(import.meta.dirname, '../../src/cli/vf-rounds.ts');
const PAGE_ROWS = join(import.meta.dirname, '../../datasets/page-world/train.jsonl');
const STAGES_SCRIPT = join(import.meta.dirname, 'rounds-process.ts');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-rounds-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const at = (name: string) => join(folder, name);
const file = (name: string, content: string) => {
  writeFileSync(at(name), content);
  return name;
};
const rowsOf = (name: string) =>
  readFileSync(at(name), 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
const idsOf = (name: string) => rowsOf(name).map(({ id, uid }) => id ?? uid);
const manifest = (name: string) =>
  JSON.parse(readFileSync(at(`${name}.manifest.json`), 'utf8')) as { counts: Record<string, number>; complete: boolean };

const sha256Of = (content: string) => createHash('sha256').update(content).digest('hex');

function start(args: readonly string[]): ChildProcess {
  const env = { PATH: process.env['PATH'], HOME: folder };
  return spawn(process.execPath, ['--conditions=source', '--no-warnings', SCRIPT, ...args], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
}

async function rounds(...args: string[]) {
  const child = start(args);
  const [stdout, stderr] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'close')]);
  return { status: child.exitCode, stdout, stderr };
}

async function done(...args: string[]): Promise<string> {
  const { status, stdout, stderr } = await rounds(...args);
  expect({ status, stderr }).toEqual({ status: 0, stderr: expect.any(String) as string });
  return stdout;
}

/** Of each prompt: NDCGs and judge scores of its rollouts. */
function group(
  prompt: string,
  ndcgs: readonly number[],
  judges: readonly number[] = ndcgs.map(() => 0),
  more: Partial<SomeRollout> = {},
): SomeRollout[] {
  return ndcgs.map((ndcg, index) => ({ prompt, index, ndcg, judge: judges[index]!, reward: judges[index]!, think: `I look ${index}.`, ...more }));
}

const TRACE = [
  ...group('easy', [1, 1, 1, 1], [1, 1, 1, 1]),
  ...group('near', [0.7, 0.7, 0.7, 0.7], [1, 0, 0, 0]),
  ...group('far', [0.1, 0.1, 0.1, 0.1], [0, 0, 0, 0]),
  ...group('lost', [0, 0, 0, 0], [0, 0, 0, 0], { pages: ['else_3'] }),
  ...group('gated', [1, 1, 1, 1], [0, 0, 0, 0], { format: 0 }),
];
const IDS = ['lost', 'far', 'near', 'easy', 'gated', 'unplayed'];

function world(): { trace: string; rows: string } {
  return { trace: file('trace.jsonl', traceText(TRACE)), rows: file('rows.jsonl', rowsText(IDS)) };
}

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
    expect({ status, stderr }).toEqual({ status: 2, stderr: 'vf-rounds: The file page-worlds does not exist\n' });
  });

  it('names prompts that the rows do not have, or counts them', async () => {
    const { trace } = world();
    const rows = file('few.jsonl', rowsText(['near']));
    const refused = await rounds('bucket', '--trace', trace, '--rows', rows, '-o', 'r1');
    expect(refused.status).toBe(2);
    expect(refused.stderr).toBe(
      'vf-rounds: The trace has the prompts "easy", "far", "gated" and 1 more, which the rows do not have; give the rows that were trained on, or --leave-out-unknown\n',
    );
    expect(readdirSync(folder)).not.toContain('r1');
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
    expect(readdirSync(folder)).not.toContain('kept.jsonl');
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

describe('vf-rounds extract to finalize', () => {
  const RARE = [
    ...group('rare', [1, 0.5, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]),
    ...group('usual', [1, 1], [1, 1]),
    ...group('never', [1, 1], [0, 0]),
    { prompt: 'broken', index: 0, badBox: true as const },
    { prompt: 'broken', index: 1, judge: 0 },
  ];

  it.each([
    ['no', [0, 0], 'no rollout has a judge score of at least 1 (--threshold)'],
    [
      'most',
      [1, 1, 1, 0],
      'every prompt with a success (1) succeeds in more than 0.5 of its rollouts, the least in 0.75; a higher --max-rate takes them',
    ],
  ])('says why nothing came out of a prompt that succeeds in %s cases', async (prompt, judges, why) => {
    file(
      'trace.jsonl',
      traceText(
        group(
          prompt,
          judges.map(() => 1),
          judges,
        ),
      ),
    );
    expect(await rounds('extract', '--trace', 'trace.jsonl', '-o', 'none.jsonl')).toMatchObject({
      status: 0,
      stderr: `vf-rounds extract: 0 to none.jsonl; ${why}\n`,
    });
  });

  it('takes successes of prompts that seldom succeed, as rows whose messages a policy is trained on', async () => {
    file('trace.jsonl', traceText(RARE));
    await done('extract', '--trace', 'trace.jsonl', '-o', 'candidates.jsonl');
    expect(idsOf('candidates.jsonl')).toEqual(['rare__s0__run-1', 'rare__s1__run-1', 'rare__s2__run-1']);
    expect(manifest('candidates').counts).toMatchObject({ prompts: 4, prompts_kept: 2, candidates: 4, without_demonstration: 1, rows: 3 });
    await done('extract', '--trace', 'trace.jsonl', '-o', 'strict.jsonl', '--success-only');
    expect(idsOf('strict.jsonl')).toEqual(['rare__s0__run-1', 'rare__s1__run-1']);
    await done('finalize', 'candidates.jsonl', '-o', 'sft.jsonl', '--most', '2');
    const [row, ...others] = rowsOf('sft.jsonl');
    expect(Object.keys(row!)).toEqual(['uid', 'format_version', 'messages']);
    expect(others).toHaveLength(1);
    expect((JSON.parse(row!['messages'] as string) as { role: string }[]).map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'user',
      'assistant',
      'user',
      'assistant',
    ]);
    expect(rowsOf('sft.golden.jsonl')).toEqual([
      {
        prompt_uid: 'rare',
        uid: 'rare__s0__run-1',
        question: 'What is rare?',
        queries: ['find rare_1'],
        pages: ['rare_1'],
        images: [],
        boxes: ['1, 2, 30, 40'],
        stop_turn: 3,
        answer: 'an answer',
        reference: 'the rare',
        judge: 1,
        ndcg: 1,
      },
    ]);
  });

  it('vets by a model, whose failure stops the stage, and whose answers are kept', async () => {
    file('trace.jsonl', traceText(RARE));
    await done('extract', '--trace', 'trace.jsonl', '-o', 'candidates.jsonl');
    let [asked, isDown] = [0, true];
    await using server = await chatServer(() => {
      asked++;
      if (isDown && asked > 1) return 'no JSON at all';
      return JSON.stringify({ pass: asked !== 1, reasons: [], flags: { gibberish: asked === 1 }, severity: 0 });
    });
    file('roles.toml', `[roles.vetter]\nbase_url = "${server.url}/v1"\nmax_concurrent = 1\nmax_retries = 0\n`);
    const failed = await rounds('vet', 'candidates.jsonl', '-o', 'passed.jsonl', '--config', 'roles.toml');
    expect(failed).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(
        /^vf-rounds: The role vetter gave no usable answer to 2 of 3 rows, first to rare__s\d__run-1: .*it holds no JSON object/,
      ) as string,
    });
    isDown = false;
    const before = asked;
    await done('vet', 'candidates.jsonl', '-o', 'passed.jsonl', '--config', 'roles.toml');
    expect(asked).toBe(before + 2);
    expect(idsOf('passed.jsonl')).toHaveLength(2);
    expect(manifest('passed').counts).toMatchObject({ rows: 3, passed: 2, failed: 1, 'failed: gibberish': 1 });
  });

  it('refuses a folder for its output that is a file, before it works', async () => {
    file('trace.jsonl', traceText(RARE));
    expect(await rounds('bucket', '--trace', 'trace.jsonl', '--rows', 'trace.jsonl', '-o', 'trace.jsonl')).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(
        /^vf-rounds: The output of bucket cannot be written: \S+trace\.jsonl is not a folder\. Name another place with -o\.\n$/,
      ) as string,
    });
  });

  it('refuses to vet without a model, and with the policy, which a stage does not have', async () => {
    file('trace.jsonl', traceText(RARE));
    await done('extract', '--trace', 'trace.jsonl', '-o', 'candidates.jsonl');
    expect(await rounds('vet', 'candidates.jsonl', '-o', 'passed.jsonl')).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(
        /^vf-rounds: This stage asks a model, and none is named\. Name one, for example with --role vetter=\S+\.\n$/,
      ) as string,
    });
    expect(await rounds('vet', 'candidates.jsonl', '-o', 'passed.jsonl', '--role', 'vetter=policy')).toMatchObject({
      status: 2,
      stderr: 'vf-rounds: A stage of a round has no policy, so role vetter cannot be bound to it. Name a server: --role vetter=MODEL@URL.\n',
    });
    expect(await rounds('vet', 'candidates.jsonl', '-o', 'passed.jsonl', '--role', 'judge=builtin')).toMatchObject({
      status: 2,
      stderr: 'vf-rounds: --role names the role judge, but this stage asks the role vetter; give --role vetter=MODEL@URL\n',
    });
  });

  it('rewrites thinks alone: claims of having seen and action tags are reverted, spoiled rows are left out', async () => {
    const thinks = ['plain', 'I can see it', 'says <bbox> here'];
    file(
      'trace.jsonl',
      traceText([...thinks.map((think, index) => ({ prompt: 'p', index, think })), ...[3, 4, 5].map((index) => ({ prompt: 'p', index, judge: 0 }))]),
    );
    await done('extract', '--trace', 'trace.jsonl', '-o', 'candidates.jsonl');
    await using server = await chatServer(({ messages }) => {
      const { units } = JSON.parse(messages.at(-1)!.content) as { units: { index: number }[] };
      return JSON.stringify({ units: units.map(({ index }, i) => ({ index, thinks: [['better', 'the image shows it', 'use <search> now'][i]] })) });
    });
    await done('rewrite', 'candidates.jsonl', '-o', 'rewritten.jsonl', '--role', `rewriter=m@${server.url}/v1`);
    expect(manifest('rewritten').counts).toMatchObject({ rows: 3, spoiled: 1, kept: 2, thinks: 6, thinks_rewritten: 3, thinks_reverted: 3 });
    const written = (name: string, row: number) =>
      (JSON.parse(rowsOf(name)[row]!['messages'] as string) as { role: string; content: string }[])
        .filter(({ role }) => role === 'assistant')
        .map(({ content }) => content);
    expect(written('rewritten.jsonl', 0)).toEqual([
      '<think>better</think>\n<search>find p_1</search>',
      '<think>plain</think>\n<bbox>[1, 2, 30, 40]</bbox>',
      '<think>plain</think>\n<search_complete>true</search_complete>',
    ]);
    expect(written('rewritten.jsonl', 1)[1]).toBe('<think>the image shows it</think>\n<bbox>[1, 2, 30, 40]</bbox>');
  });

  it('takes no rewrite that changes the case of a tag, and keeps the tags of the original', async () => {
    file('trace.jsonl', traceText(RARE));
    await done('extract', '--trace', 'trace.jsonl', '-o', 'candidates.jsonl');
    const changed = (name: string, change: (text: string) => string) =>
      file(
        name,
        rowsOf('candidates.jsonl')
          .map((row) => `${JSON.stringify({ ...row, messages: change(row['messages'] as string) })}\n`)
          .join(''),
      );
    changed('upper.jsonl', (messages) => messages.replaceAll('<think>', '<THINK>'));
    for (const [rows, given] of [
      ['candidates.jsonl', 'upper.jsonl'],
      ['upper.jsonl', 'candidates.jsonl'],
    ] as const)
      expect(await rounds('rewrite', rows, '--rewritten', given, '-o', 'out.jsonl')).toMatchObject({
        status: 2,
        stderr: expect.stringMatching(/differs from the original in messages\[2\]; a rewrite may only change what stands in <think>\n$/) as string,
      });
    changed('better.jsonl', (messages) => messages.replaceAll('<think>', '<THINK>').replaceAll('I look', 'I search'));
    await done('rewrite', 'upper.jsonl', '--rewritten', 'better.jsonl', '-o', 'out.jsonl');
    expect(rowsOf('out.jsonl').map(({ messages }) => messages)).toEqual(rowsOf('better.jsonl').map(({ messages }) => messages));
  });

  it('refuses a row that is nested very deeply in one line that names row and key', async () => {
    const first = { uid: 'first', format_version: 'v1', messages: [{ role: 'user', content: 'q' }] };
    const deep = { ...first, uid: 'second', messages: `${'['.repeat(100_000)}${']'.repeat(100_000)}` };
    file('rows.jsonl', [first, deep].map((row) => `${JSON.stringify(row)}\n`).join(''));
    expect(await rounds('finalize', 'rows.jsonl', '-o', 'sft.jsonl')).toMatchObject({
      status: 2,
      stderr: 'vf-rounds: rows.jsonl:2: "messages" is nested more than 64 levels deep; give flatter rows\n',
    });
  });

  it.each([
    ['with a message more', (messages: unknown[]) => [...messages, { role: 'user', content: 'more' }], 'has 8 messages, the original 7'],
    [
      'with another action',
      (messages: { content: string }[]) => messages.map((m) => ({ ...m, content: m.content.replace('find', 'seek') })),
      'differs from the original in messages[2]',
    ],
    [
      'with an unknown role',
      (messages: object[]) => [{ ...messages[0], role: 'tool' }, ...messages.slice(1)],
      'messages[0].role must be system, user, assistant, got "tool"',
    ],
  ])('refuses rewritten rows %s', async (_, change, message) => {
    file('trace.jsonl', traceText(RARE));
    await done('extract', '--trace', 'trace.jsonl', '-o', 'candidates.jsonl');
    const rows = rowsOf('candidates.jsonl').map((row) => ({ ...row, messages: change(JSON.parse(row['messages'] as string) as never[]) }));
    file('rewritten.jsonl', rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const { status, stderr } = await rounds('rewrite', 'candidates.jsonl', '--rewritten', 'rewritten.jsonl', '-o', 'out.jsonl');
    expect(status).toBe(2);
    expect(stderr).toMatch(/^vf-rounds: rewritten\.jsonl:1: [^\n]*\n$/);
    expect(stderr).toContain(message);
  });
});

describe('the files of a stage', () => {
  it('are the same bytes for the same input, in whatever order it is named and its lines stand', async () => {
    const { rows } = world();
    file('one.jsonl', traceText(TRACE.slice(0, 9)));
    file('two.jsonl', traceText(TRACE.slice(9)));
    await done('bucket', '--trace', 'one.jsonl', '--trace', 'two.jsonl', '--rows', rows, '-o', 'a');
    await done('bucket', '--trace', 'two.jsonl', '--trace', 'one.jsonl', '--rows', rows, '-o', 'b');
    for (const name of readdirSync(at('a'))) expect([name, readFileSync(at(`b/${name}`))]).toEqual([name, readFileSync(at(`a/${name}`))]);
    file('one.jsonl', traceText(TRACE.slice(0, 9)).trimEnd().split('\n').toReversed().join('\n'));
    await done('bucket', '--trace', 'one.jsonl', '--trace', 'two.jsonl', '--rows', rows, '-o', 'b');
    for (const name of readdirSync(at('a')).filter((each) => each.endsWith('.jsonl')))
      expect([name, readFileSync(at(`b/${name}`))]).toEqual([name, readFileSync(at(`a/${name}`))]);
  });

  it('replace nothing that another wrote, and no input', async () => {
    const { trace, rows } = world();
    file('mine.jsonl', 'precious\n');
    const foreign = await rounds('extract', '--trace', trace, '-o', 'mine.jsonl');
    expect(foreign).toMatchObject({
      status: 2,
      stderr: 'vf-rounds: mine.jsonl exists and is no output of extract; name another file, or remove it\n',
    });
    expect(readFileSync(at('mine.jsonl'), 'utf8')).toBe('precious\n');
    const self = await rounds('focus', '--trace', trace, '--rows', rows, '-o', rows);
    expect(self.stderr).toBe('vf-rounds: rows.jsonl is read as rows, so it cannot be the output; name another file\n');
    const twice = await rounds('bucket', '--trace', trace, '--trace', `./${trace}`, '--rows', rows, '-o', 'r1');
    expect(twice.stderr).toMatch(/is named twice as trace; name it once\n$/);
  });

  it('keep the decisions that somebody filled into their lists: report takes them, and no stage replaces them', async () => {
    const { trace, rows } = world();
    const bucket = ['bucket', '--trace', trace, '--rows', rows, '-o', 'r1'];
    const verify = ['verify', '--trace', trace, '--rows', rows, '-o', 'r1/verified.jsonl'];
    for (const [command, list] of [
      [bucket, 'r1/review.jsonl'],
      [verify, 'r1/verified.jsonl'],
    ] as const) {
      await done(...command);
      const edited = readFileSync(at(list), 'utf8').replace('"exclude":false,"reason":""', '"exclude":true,"reason":"wrong reference"');
      expect(edited).toContain('wrong reference');
      file(list, edited);
      await done('review', '--rows', rows, '--exclude', list, '-o', 'r1/kept.jsonl');
      expect(await done('report', 'r1')).toMatch(new RegExp(`^${command[0]} `, 'm'));
      expect(await rounds(...command)).toMatchObject({
        status: 2,
        stderr: `vf-rounds: ${list} was edited after ${command[0]} wrote it, and ${command[0]} would replace it. Name another output with -o, or delete the file.\n`,
      });
      expect(readFileSync(at(list), 'utf8')).toBe(edited);
      rmSync(at(list));
      await done(...command);
      expect(readFileSync(at(list), 'utf8')).not.toContain('wrong reference');
      // Nobody edited it: the stage was killed between this file and its manifest.
      const interrupted = `r1/${command[0] === 'bucket' ? 'bucket' : 'verified'}.manifest.json`;
      file(interrupted, readFileSync(at(interrupted), 'utf8').replace('"complete": true', '"complete": false'));
      file(list, '');
      await done(...command);
      expect(rowsOf(list)).not.toHaveLength(0);
    }
  });

  it('report how many rows each stage left; a file that has changed since breaks the chain in one line', async () => {
    const { trace, rows } = world();
    await done('bucket', '--trace', trace, '--rows', rows, '-o', 'r1');
    await done('focus', '--trace', trace, '--rows', 'r1/bucket-a.jsonl', '-o', 'r1/round.jsonl');
    const table = await done('report', 'r1/round.jsonl', '--trace', trace);
    expect(table).toMatch(/^bucket +6 +2 bucket-a, 1 bucket-b, 2 bucket-0, 2 review +.*measure ndcg, low 0.1, high 0.7/m);
    expect(table).toMatch(/^focus +2 +1 round /m);
    expect(table).toMatch(/^right without its document +0 \(0 %\)$/m);
    expect(table).toMatch(/^generator +20 +500 +500 +500 +500$/m);
    const { stages, trace: analysis } = JSON.parse(await done('report', 'r1', '--trace', trace, '--json')) as {
      stages: { stage: string }[];
      trace: Record<string, unknown>;
    };
    expect(stages.map(({ stage }) => stage)).toEqual(['bucket', 'focus']);
    expect(analysis).toMatchObject({ prompts: 5, rollouts: 20, wrong_with_golden_pages: 4, zero_search: 0 });
    expect(await done('report', 'r1', '--markdown')).toMatch(/^\| stage \| in \| out \| rule \|\n\| --- \|/);
    file('rows.jsonl', rowsText(IDS.slice(1)));
    const broken = await rounds('report', 'r1/round.jsonl');
    expect(broken.status).toBe(2);
    expect(broken.stderr).toMatch(
      /^vf-rounds: The chain is broken: \S*rows\.jsonl has changed since bucket read it as rows \(SHA-256 \S+ then, \S+ now\); run bucket again\n$/,
    );
  });

  it('report past the manifests of other programs, and name a torn one of a stage in one line', async () => {
    const { trace, rows } = world();
    await done('bucket', '--trace', trace, '--rows', rows, '-o', 'deep/r1');
    const others = { 'app.manifest.json': '{"name": "app", "icons": []}', 'list.manifest.json': '[1]', 'cut.manifest.json': '{"name": "a' };
    for (const [name, content] of Object.entries(others)) for (const place of ['', 'deep/', 'deep/r1/']) file(`${place}${name}`, content);
    mkdirSync(at('deep/folder.manifest.json'));
    const before = await done('report', 'deep/r1/bucket-a.jsonl');
    expect(before).toMatch(/^bucket +6 /m);
    expect(await done('report', 'deep')).toBe(before);
    await done('focus', '--trace', trace, '--rows', 'deep/r1/bucket-a.jsonl', '-o', 'deep/r1/round.jsonl');
    expect((await done('report', 'deep/r1/round.jsonl')).split('\n').map((line) => line.split(' ')[0])).toEqual(['stage', 'bucket', 'focus', '']);
    const own = readFileSync(at('deep/r1/bucket.manifest.json'), 'utf8');
    file('deep/r1/bucket.manifest.json', own.slice(0, own.length / 2));
    for (const named of ['deep', 'deep/r1/round.jsonl']) {
      const { status, stderr } = await rounds('report', named);
      expect(status).toBe(2);
      expect(stderr).toMatch(
        /^vf-rounds: \S*deep\/r1\/bucket\.manifest\.json is not the manifest of a stage: text that is not JSON\. Restore it, or delete [^\n]+\n$/,
      );
    }
  });

  it('are old or new after kill -9, in whatever stage it comes, and whole once the stages are run again', { timeout: 240_000 }, async () => {
    world();
    for (const [name, id] of Object.entries({ old: 'lost', new: 'gated' })) file(`${name}-list.jsonl`, `${JSON.stringify({ id, reason: 'x' })}\n`);
    const answers = { verdict: 'GEN_ERROR', reason: 'r', pass: true, reasons: [], flags: {}, severity: 0, units: [] };
    await using server = await chatServer(() => JSON.stringify(answers));
    const asks = (role: string) => ['--role', `${role}=m@${server.url}/v1`];
    const traced = ['--trace', 'trace.jsonl', '--rows', 'rows.jsonl'];
    /** Other bounds make other files. */
    const run = (version: 'old' | 'new', [least, most, rate] = version === 'old' ? ['0', '0.9', '1'] : ['0.1', '0.2', '0.5']) => {
      const stages = [
        ['bucket', ...traced, '--low', least, '--high', most, '-o', 'out'],
        ['review', '--rows', 'rows.jsonl', '--exclude', `${version}-list.jsonl`, '-o', 'out/reviewed.jsonl'],
        ['focus', ...traced, '--threshold', most, '-o', 'out/focused.jsonl'],
        ['verify', ...traced, '--low', most, '-o', 'out/verified.jsonl', ...asks('vetter')],
        ['extract', '--trace', 'trace.jsonl', '--max-rate', rate, '-o', 'out/extracted.jsonl'],
        ['vet', 'out/extracted.jsonl', '-o', 'out/passed.jsonl', ...asks('vetter')],
        ['rewrite', 'out/passed.jsonl', '-o', 'out/rewritten.jsonl', ...asks('rewriter')],
        ['finalize', 'out/rewritten.jsonl', '-o', 'out/final.jsonl'],
      ];
      return spawn(process.execPath, ['--conditions=source', '--no-warnings', STAGES_SCRIPT, JSON.stringify(stages)], { cwd: folder });
    };
    const contents = (of: string) =>
      Object.fromEntries(
        readdirSync(at(of))
          .filter((name) => !/replies|\.tmp$/.test(name))
          .map((name) => [name, readFileSync(at(`${of}/${name}`), 'utf8')]),
      );
    mkdirSync(at('out'));
    await once(run('old'), 'close');
    const old = contents('out');
    cpSync(at('out'), at('old'), { recursive: true });
    await once(run('new'), 'close');
    const whole = contents('out');
    expect(Object.keys(whole)).toHaveLength(4 + 1 + 2 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 2 + 1 + 1 + 1 + 2 + 1);
    for (const [name, content] of Object.entries(whole)) expect([name, content]).not.toEqual([name, old[name]]);

    const doneAtKills = new Set<number>();
    for (let change = 3; ; change += 23) {
      rmSync(at('out'), { recursive: true });
      mkdirSync(at('out'));
      // What writes into an old file, in place of replacing it, changes its link, too.
      for (const name of Object.keys(old)) linkSync(at(`old/${name}`), at(`out/${name}`));
      const child = run('new');
      let seen = 0;
      const watcher = watch(at('out'), () => void (++seen === change && child.kill('SIGKILL')));
      await once(child, 'close');
      watcher.close();
      const left = contents('out');
      const [manifests, others] = [true, false].map((is) => Object.entries(left).filter(([name]) => name.endsWith('.manifest.json') === is));
      for (const [name, content] of others!) expect([old[name], whole[name]]).toContain(content);
      const promised = manifests!
        .map(([, content]) => JSON.parse(content) as WireRoundManifest)
        .flatMap((each) => (each.complete ? each.outputs : []));
      for (const { path, sha256 } of promised) expect([path, sha256Of(left[path]!)]).toEqual([path, sha256]);
      expect(contents('old')).toEqual(old);
      doneAtKills.add(manifests!.filter(([name, content]) => content === whole[name]).length);
      await once(run('new'), 'close');
      expect(contents('out')).toEqual(whole);
      if (child.signalCode === null) break;
    }
    // The kills came in several of the stages.
    expect(doneAtKills.size).toBeGreaterThan(4);
  });
});
