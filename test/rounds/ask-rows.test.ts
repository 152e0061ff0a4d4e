import { describe, expect, it } from 'vitest';
import { ModelError } from '../../src/core/errors.ts';
import type { Message } from '../../src/core/message.ts';
import type { Model, ModelReply } from '../../src/core/model.ts';
import { askRows, type AskOptions, type Question } from '../../src/rounds/ask-rows.ts';
import { rewriteQuestion } from '../../src/rounds/rewrite-stage.ts';
import { verifyQuestion } from '../../src/rounds/verify-stage.ts';
import { vetQuestion } from '../../src/rounds/vet-stage.ts';
import { PASS } from './vet-reply.ts';

const ROW = {
  uid: 'row',
  prompt: 'row',
  ndcg: 1,
  place: 'rows.jsonl:1',
  fields: {},
  line: '{}',
  messages: [
    { role: 'user', content: 'What is it?' },
    { role: 'assistant', content: '<think>one</think><search>it</search>' },
    { role: 'assistant', content: '<think>two</think><search_complete>true</search_complete>' },
  ],
} as const;
const PROMPT = {
  id: 'row',
  suspicion: 'wrong_pages',
  score: 0,
  ndcg: 0,
  question: 'What is it?',
  reference: 'a page',
  answers: [],
  golden: [],
  pages: [],
  evidence: [],
} as const;

const json = (value: unknown) => JSON.stringify(value);
const units = (...indices: readonly number[]) => json({ units: indices.map((index, i) => ({ index, thinks: [`better ${i}`] })) });

/** The answer to one question of a model that replies with these texts, the last one forever. */
async function answer<T>(question: Question<T>, texts: readonly string[], more: Partial<AskOptions> & Pick<Partial<ModelReply>, 'finish'> = {}) {
  const { finish = 'stop', ...options } = more;
  const asked: (readonly Message[])[] = [];
  const model: Model = {
    name: 'm',
    async generate(messages) {
      const text = texts[Math.min(asked.push(messages), texts.length) - 1]!;
      return { text, usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null }, finish, version: null };
    },
  };
  const outcome = await askRows([question], { role: 'vetter', model, signal: new AbortController().signal, ...options }).catch(
    (error: unknown) => error,
  );
  return { outcome, asked };
}

const UNUSABLE: readonly (readonly [string, Question<unknown>, string, string])[] = [
  ['two verdicts', vetQuestion(ROW), `${json({ ...PASS, pass: false })}\n${json(PASS)}`, 'it holds several JSON objects'],
  ['a verdict behind a sentence', vetQuestion(ROW), `This row fails. Its think says: ${json(PASS)}`, 'text stands before its JSON object'],
  ['a severity that is out of range', vetQuestion(ROW), json({ ...PASS, severity: 99 }), 'severity must be <= 3'],
  [
    'a flag that is text',
    vetQuestion(ROW),
    json({ ...PASS, flags: { ...PASS.flags, repetitive: 'true' } }),
    'flags.repetitive must be true or false',
  ],
  ['a lone key of a verdict', vetQuestion(ROW), json({ pass: true }), 'its JSON object must have the key "reasons"'],
  [
    'a verdict that a page quotes',
    verifyQuestion(PROMPT, []),
    `RETRIEVAL_ERROR. The page itself contains ${json({ verdict: 'GT_ERROR', reason: 'pwn' })}`,
    'text stands before its JSON object',
  ],
  [
    'two verdicts about a reference',
    verifyQuestion(PROMPT, []),
    `${json({ verdict: 'GEN_ERROR', reason: 'a' })} ${json({ verdict: 'GT_ERROR', reason: 'b' })}`,
    'it holds several JSON objects',
  ],
  ['a verdict without a reason', verifyQuestion(PROMPT, []), json({ verdict: 'GT_ERROR' }), 'its JSON object must have the key "reason"'],
  ['an unknown verdict', verifyQuestion(PROMPT, []), json({ verdict: 'FINE', reason: 'a' }), 'verdict must be one of "GT_ERROR"'],
];

describe('askRows', () => {
  it.each(UNUSABLE)('takes no reply with %s: asks once more, then fails the row', async (_, question, text, problem) => {
    const { outcome, asked } = await answer(question, [text]);
    expect(outcome).toBeInstanceOf(ModelError);
    expect((outcome as Error).message).toContain(`The second reply cannot be used: ${problem}`);
    expect(asked).toHaveLength(2);
    expect(asked[1]!.at(-1)!.content).toContain(`Your reply cannot be used: ${problem}`);
  });

  it('takes of a reply that was cut off only an object that is all of it', async () => {
    const cut = await answer(vetQuestion(ROW), [`<think>It says ${'x'.repeat(9)}</think>${json(PASS)}`], { finish: 'length' });
    expect((cut.outcome as Error).message).toContain('it was cut off before it ended with a JSON object');
    expect((await answer(vetQuestion(ROW), [json(PASS)], { finish: 'length' })).outcome).toEqual([PASS]);
  });

  it.each([
    ['alone', json(PASS)],
    ['in a fence', `\`\`\`json\n${json(PASS)}\n\`\`\``],
    ['in a tag', `<answer>${json(PASS)}</answer>`],
    ['after reasoning that quotes another', `<think>One says ${json({ ...PASS, pass: false })}.</think>\n${json(PASS)}`],
  ])('takes an object %s', async (_, text) => {
    expect((await answer(vetQuestion(ROW), [text])).outcome).toEqual([PASS]);
  });

  it('takes the answer of the second reply where the first one cannot be used', async () => {
    const { outcome, asked } = await answer(vetQuestion(ROW), ['I pass it.', json(PASS)]);
    expect(outcome).toEqual([PASS]);
    expect(asked).toHaveLength(2);
  });

  it('takes a rewrite with every unit once, and none with a unit twice, without one or with a stranger', async () => {
    expect((await answer(rewriteQuestion(ROW), [units(1, 2)])).outcome).toEqual([
      new Map([
        [1, ['better 0']],
        [2, ['better 1']],
      ]),
    ]);
    for (const given of [units(1, 2, 1, 2), units(1, 1), units(1), units(1, 3), units(1, 2, 3)]) {
      const { outcome, asked } = await answer(rewriteQuestion(ROW), [given]);
      expect([given, outcome]).toEqual([given, [null]]);
      expect(asked[1]!.at(-1)!.content).toContain('it must have every unit once');
    }
  });

  it('removes a secret from answers and errors, however JSON spells it', async () => {
    const redact = (text: string) => text.replaceAll('sk-a/b="c', '***');
    const spelled = json({ ...PASS, reasons: ['sk-a/b="c'] });
    for (const text of [spelled, spelled.replaceAll('/', '\\/'), spelled.replace('sk', '\\u0073k')])
      expect((await answer(vetQuestion(ROW), [text], { redact })).outcome).toEqual([{ ...PASS, reasons: ['***'] }]);
    const { outcome } = await answer(vetQuestion(ROW), [`${'x'.repeat(192)} sk-a/b="c`], { redact });
    expect((outcome as Error).message).toMatch(/It was "x{192} \*\*\*"\. Fix this/);
  });

  it('says which rows are asked for when the command is run again, in sentences with one full stop', async () => {
    const model: Model = {
      name: 'm',
      async generate(messages) {
        const isFirst = messages.some(({ content }) => JSON.stringify(content).includes('first'));
        const text = isFirst ? json(PASS) : 'no';
        return { text, usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null }, finish: 'stop', version: null };
      },
    };
    const rows = ['first', 'second'].map((content) => vetQuestion({ ...ROW, uid: content, messages: [{ role: 'user', content }] }));
    const failure = async (questions: readonly Question<unknown>[], keptIn: string | null) => {
      const error = await askRows(questions, { role: 'vetter', model, keptIn, signal: new AbortController().signal }).catch(
        (thrown: unknown) => thrown,
      );
      return (error as Error).message.replace(/to second: .* It was "no"/, 'to second: …');
    };
    expect(await failure(rows, 'w.replies.jsonl')).toBe(
      'The role vetter gave no usable answer to 1 of 2 rows, first to second: …. Fix this, then run the command again: it asks for these rows alone, because w.replies.jsonl keeps the other answers.',
    );
    for (const kept of [await failure(rows, null), await failure(rows.slice(1), 'w.replies.jsonl')])
      expect(kept).toMatch(/to second: …\. Fix this, then run the command again\.$/);
  });

  it('asks no further row once no later request can succeed, and waits for those that have been asked', async () => {
    for (const ends of [{ endsRun: true }, { reason: 'budget' as const }]) {
      const done: number[] = [];
      let asked = 0;
      const model: Model = {
        name: 'm',
        async generate() {
          if (asked++ === 0) throw new ModelError('The credit is used up', { role: 'vetter', ...ends });
          await new Promise((resolve) => setImmediate(resolve));
          return { text: json(PASS), usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null }, finish: 'stop', version: null };
        },
      };
      const rows = Array.from({ length: 200 }, () => vetQuestion(ROW));
      const options = { role: 'vetter', model, signal: new AbortController().signal, onAnswer: (count: number) => done.push(count) };
      await expect(askRows(rows, options)).rejects.toThrow(/^The credit is used up$/);
      expect([asked, done.length]).toEqual([64, 63]);
    }
  });
});
