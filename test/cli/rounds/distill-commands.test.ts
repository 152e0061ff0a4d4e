/** What `vf-rounds extract`, `vet`, `rewrite` and `finalize` make of a trace, and what they refuse. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { chatServer } from '../../models/chat-server.ts';
import { traceText } from '../../rounds/trace-lines.ts';
import { PASS } from '../../rounds/vet-reply.ts';
import { group, stagesFolder } from './stages-folder.ts';

const { at, file, rowsOf, idsOf, manifest, rounds, done } = stagesFolder();

describe('vf-rounds extract to finalize', () => {
  const RARE = [
    ...group('rare', [1, 0.5, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]),
    ...group('usual', [1, 1], [1, 1]),
    ...group('never', [1, 1], [0, 0]),
    { prompt: 'broken', index: 0, badBox: true as const },
    { prompt: 'broken', index: 1, judge: 0 },
  ];

  it.each([
    ['no', [0, 0], 'No rollout has a judge score of at least 1 (--threshold)'],
    [
      'most',
      [1, 1, 1, 0],
      'Every prompt with a success (1) succeeds in more than 0.5 of its rollouts, the least in 0.75; a higher --max-rate takes them',
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
    expect(await rounds('extract', '--trace', 'trace.jsonl', '-o', 'a4/none.jsonl')).toMatchObject({
      status: 0,
      stderr: `vf-rounds extract: 0 to none.jsonl in a4. ${why}\n`,
    });
  });

  it.each<readonly [string, (text: string) => string, string]>([
    [
      'have another form',
      (text) => text.replaceAll('search>', 'ask>'),
      '2 successes cannot become demonstrations: in each, a turn does not think and then act (<search>, <bbox> or <search_complete>)',
    ],
    [
      'the environment ended',
      (text) => text.replaceAll(/"model\.turn"(?=[^\n]*search_complete)/g, '"other"'),
      '2 successes cannot become demonstrations: in each, the policy does not complete the search',
    ],
    [
      'lack one or the other',
      (text) => text.replace('<search>find', 'find').replaceAll(/"model\.turn"(?=[^\n]*search_complete)/g, '"other"'),
      '2 successes cannot become demonstrations: in 1, a turn does not think and then act (<search>, <bbox> or <search_complete>); in 1, the policy does not complete the search',
    ],
  ])('says in one line that successes that %s become no demonstrations', async (_, change, why) => {
    file('trace.jsonl', change(traceText(group('own', [1, 1, 1, 1], [1, 1, 0, 0]))));
    expect(await rounds('extract', '--trace', 'trace.jsonl', '-o', 'none.jsonl')).toMatchObject({
      status: 0,
      stderr: `vf-rounds extract: 0 to none.jsonl. ${why}\n`,
    });
    expect(manifest('none').counts).toMatchObject({ candidates: 2, without_demonstration: 2, rows: 0 });
  });

  it('takes prompts from a lowest share of successes on, and rollouts of at most so many turns', async () => {
    file('trace.jsonl', traceText(RARE));
    await done('extract', '--trace', 'trace.jsonl', '-o', 'often.jsonl', '--min-rate', '0.6', '--max-rate', '1');
    expect(idsOf('often.jsonl')).toEqual(['usual__s0__run-1', 'usual__s1__run-1']);
    expect(manifest('often').rule).toMatchObject({ min_rate: 0.6, max_rate: 1 });
    await done('extract', '--trace', 'trace.jsonl', '-o', 'short.jsonl', '--max-turns', '2');
    expect(manifest('short').counts).toMatchObject({ prompts_kept: 0, rows: 0 });
    await done('extract', '--trace', 'trace.jsonl', '-o', 'long.jsonl', '--max-turns', '3');
    expect(idsOf('long.jsonl')).toEqual(['rare__s0__run-1', 'rare__s1__run-1', 'rare__s2__run-1']);
  });

  it('takes successes of prompts that seldom succeed, as rows whose messages a policy is trained on', async () => {
    file('trace.jsonl', traceText(RARE));
    expect((await rounds('extract', '--trace', 'trace.jsonl', '-o', 'candidates.jsonl')).stderr).toBe(
      'vf-rounds extract: 3 to candidates.jsonl. 1 success cannot become a demonstration: in it, a search or a box showed nothing\n',
    );
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
      return JSON.stringify({ ...PASS, pass: asked !== 1, flags: { ...PASS.flags, gibberish: asked === 1 } });
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

  it('passes rows on byte for byte, and keeps the digits of their other columns where a think changes', async () => {
    const messages = [
      { role: 'user', content: 'q' },
      { role: 'assistant', content: '<think>one</think><search_complete>true</search_complete>' },
    ];
    const [same, other] = ['same', 'other'].map(
      (uid) =>
        `{ "uid": "${uid}", "format_version": "v1", "judge": 1.0, "reference": 12345678901234567890, "messages": ${JSON.stringify(messages)} }`,
    ) as [string, string];
    file('rows.jsonl', `${same}\n${other}\n`);
    const better = JSON.stringify(messages).replace('one', 'two');
    file('better.jsonl', `{"uid": "other", "format_version": "v1", "messages": ${better}}\n`);
    await done('rewrite', 'rows.jsonl', '--rewritten', 'better.jsonl', '-o', 'rewritten.jsonl');
    const reworded = `{"uid":"other","format_version":"v1","judge":1.0,"reference":12345678901234567890,"messages":${JSON.stringify(better)}}`;
    expect(readFileSync(at('rewritten.jsonl'), 'utf8')).toBe(`${same}\n${reworded}\n`);
    await using server = await chatServer(() => JSON.stringify(PASS));
    await done('vet', 'rewritten.jsonl', '-o', 'passed.jsonl', '--role', `vetter=m@${server.url}/v1`);
    expect(readFileSync(at('passed.jsonl'), 'utf8')).toBe(`${same}\n${reworded}\n`);
    await done('finalize', 'passed.jsonl', '-o', 'sft.jsonl');
    expect(readFileSync(at('sft.golden.jsonl'), 'utf8').match(/"reference":12345678901234567890,"judge":1\.0,/g)).toHaveLength(2);
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

  it('refuses a row that is nested very deeply, is not a demonstration or is not there, in one line that names row and key', async () => {
    const first = { uid: 'first', format_version: 'v1', messages: [{ role: 'user', content: 'q' }] };
    const demonstrations = 'The rows must be demonstrations, as "vf-rounds extract" writes them.\n';
    const deep = { ...first, uid: 'second', messages: `${'['.repeat(100_000)}${']'.repeat(100_000)}` };
    file('rows.jsonl', [first, deep].map((row) => `${JSON.stringify(row)}\n`).join(''));
    expect(await rounds('finalize', 'rows.jsonl', '-o', 'sft.jsonl')).toMatchObject({
      status: 2,
      stderr: 'vf-rounds: rows.jsonl:2: "messages" is nested more than 64 levels deep; give flatter rows. ' + demonstrations,
    });
    file('questions.jsonl', '{"id": "a", "question": "b"}\n');
    expect(await rounds('vet', 'questions.jsonl', '-o', 'passed.jsonl')).toMatchObject({
      status: 2,
      stderr: 'vf-rounds: questions.jsonl:1: "uid" must be the id of the row, got nothing. ' + demonstrations,
    });
    expect((await rounds('vet', 'gone.jsonl', '-o', 'passed.jsonl')).stderr).toBe(
      'vf-rounds: The file gone.jsonl does not exist; name rows that "vf-rounds extract" wrote\n',
    );
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
