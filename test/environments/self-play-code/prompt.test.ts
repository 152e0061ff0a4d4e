/** The short prompts are held byte for byte by test/recipes/coder/texts.test.ts. */
import { contentText } from 'vf-search';
import { describe, expect, it } from 'vitest';
import { createHash } from 'node:crypto';
import { CREATIVITY_GRADING_PROMPT } from '../../../environments/self-play-code/grading-prompt.ts';
import { critiquePrompt, type ProposalPrompt, proposePrompt, solvePrompt } from '../../../environments/self-play-code/prompt.ts';
import type { IoRecord, TaskRecord } from '../../../environments/self-play-code/records.ts';

const FIRST: IoRecord = { kind: 'code_o', snippet: 'def f(first):\n    return first', input: "'first input'", output: "'first output'", imports: [] };
const SECOND: IoRecord = { ...FIRST, snippet: 'def f(second):\n    return second', input: "'second input'", output: "'second output'" };
const FUNCTION: TaskRecord = {
  kind: 'code_f',
  snippet: 'def f(secret):\n    return secret',
  inputs: ['11', '12', '13', '14', '15'],
  outputs: ['21', '22', '23', '24', '25'],
  message: 'adds ten',
  imports: [],
};

const textOf = (messages: readonly { readonly content: Parameters<typeof contentText>[0] }[]) =>
  messages.map(({ content }) => contentText(content)).join('');
const propose = (asked: Partial<ProposalPrompt>) =>
  textOf(proposePrompt('full', { kind: 'code_o', program: null, references: [], banned: ['random', 'os.path'], inputCount: 10, ...asked }));
const solve = (record: TaskRecord) => textOf(solvePrompt('full', record));

describe('proposePrompt with the style full', () => {
  it.each(['code_o', 'code_i', 'code_e'] as const)('%s: names the tags, the banned words and every reference with its input and output', (kind) => {
    const text = propose({ kind, references: [FIRST, SECOND] });
    for (const part of ['<think>', '</think>', '<answer>', '</answer>', 'random, os.path', '```python', '```input', '`f`'])
      expect(text).toContain(part);
    for (const { snippet, input, output } of [FIRST, SECOND]) for (const part of [snippet, input, output]) expect(text.split(part)).toHaveLength(2);
    expect(text.indexOf(FIRST.snippet)).toBeLessThan(text.indexOf(SECOND.snippet));
  });

  it('says to each kind what the solver has to do, and shows no example where there is none', () => {
    const texts = (['code_o', 'code_i', 'code_e'] as const).map((kind) => propose({ kind }));
    expect(new Set(texts).size).toBe(3);
    expect(texts[0]).toContain('work out what `f` returns');
    expect(texts[1]).toContain('find an input that gives this result');
    expect(texts[2]).toContain('name the error');
    for (const text of texts) expect(text).not.toContain('### Example');
  });

  it('code_f: shows the program, and asks for a number of inputs and a message', () => {
    const text = propose({ kind: 'code_f', program: FIRST.snippet, inputCount: 7 });
    for (const part of ['<think>', '<answer>', FIRST.snippet, 'Choose 7 inputs', 'Exactly 7 inputs', '```input', '```message'])
      expect(text).toContain(part);
    expect(text).not.toContain('random');
  });
});

describe('solvePrompt with the style full', () => {
  it('shows the program with its input, or with its output, and asks for the other', () => {
    const [output, input, error] = [solve(FIRST), solve({ ...FIRST, kind: 'code_i' }), solve({ ...FIRST, kind: 'code_e', output: 'KeyError' })];
    for (const text of [output, input, error]) for (const part of ['<think>', '<answer>', FIRST.snippet]) expect(text).toContain(part);
    expect([output.includes(FIRST.input), output.includes(FIRST.output)]).toEqual([true, false]);
    expect([input.includes(FIRST.input), input.includes(FIRST.output)]).toEqual([false, true]);
    expect([error.includes(FIRST.input), error.includes('KeyError')]).toEqual([true, false]);
  });

  it('code_f: shows the larger half of the inputs with their outputs, the message, and neither the rest nor the program', () => {
    const text = solve(FUNCTION);
    for (const part of ['11', '21', '12', '22', '13', '23', 'adds ten']) expect(text).toContain(part);
    for (const part of ['14', '24', '15', '25', 'secret']) expect(text).not.toContain(part);
  });
});

describe('critiquePrompt with the style full', () => {
  it('shows the thought alone, and asks for each dimension and one JSON object', () => {
    const text = textOf(critiquePrompt('full', 'I tried twice.', ['depth', 'elegance']));
    for (const part of ['I tried twice.', '- depth: did they work through', '- elegance: how much elegance', '{"rationale": ', '"grade": '])
      expect(text).toContain(part);
    for (const part of ['novelty', '<think>', '<answer>']) expect(text).not.toContain(part);
  });

  it("can be the specification's own prompt, word for word, before the thought", () => {
    const digest = createHash('sha256').update(CREATIVITY_GRADING_PROMPT).digest('hex');
    expect(digest).toBe('93e86236a41ba374b01e10123b8ad528cc21fbb0e43bb02e3bfeac2dd93c1329');
    expect(textOf(critiquePrompt('full', 'I tried twice.', ['depth'], 'document'))).toBe(
      `${CREATIVITY_GRADING_PROMPT}\n<think>\nI tried twice.\n</think>\n`,
    );
  });

  it('can ask for a score of each dimension and an overall grade', () => {
    const text = textOf(critiquePrompt('full', 'I tried twice.', ['depth', 'a "plain" style'], 'scores'));
    expect(text).toContain('{"depth": 0.5, "a \\"plain\\" style": 0.5, "overall_grade": 0.75, "rationale": ');
    expect(text).not.toContain('"grade":');
  });

  it('asks for a dimension that is called like a property of objects', () => {
    expect(textOf(critiquePrompt('full', 't', ['constructor']))).toContain('- constructor: how much constructor');
  });
});
