import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import type { Message } from '../../src/core/message.ts';
import { openLocalTokenizer } from '../../src/tokenizer/local-tokenizer.ts';
import { isMilestone, shortenedHistory } from '../../src/tokenizer/shortened-history.ts';
import { temporaryFolder } from '../trainer/publisher/adapter-files.ts';
import { PUBLISHED, published, writeTemplateModel } from './template-models.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const assistant = (i: number): Message => ({ role: 'assistant', content: `answer ${i}` });
const user = (i: number): Message => ({ role: 'user', content: `question ${i}` });
const tool = (i: number): Message => ({ role: 'tool', content: `result ${i}`, toolCallId: 'call00000' });

/** The messages before a turn: a question, and an answer and what follows it for each round. */
const chat = (rounds: number): readonly Message[] => [user(0), ...Array.from({ length: rounds }, (_, i) => [assistant(i), user(i + 1)]).flat()];
const loop = (rounds: number): readonly Message[] => [
  { role: 'system', content: 'Be brief.' },
  user(0),
  ...Array.from({ length: rounds }, (_, i) => [assistant(i), tool(i)]).flat(),
];

describe('shortenedHistory', () => {
  it('has at most 32 messages, however long the history is', () => {
    for (const rounds of [40, 400]) for (const long of [chat(rounds), loop(rounds)]) expect(shortenedHistory(long).length).toBeLessThanOrEqual(32);
    expect(shortenedHistory(chat(7))).toHaveLength(15);
  });

  const history = fc.array(fc.constantFrom<Message['role']>('system', 'user', 'assistant', 'tool'), { minLength: 17, maxLength: 80 });

  it('keeps the beginning, the end, the last message of each role, their order, and the roles that meet', () => {
    fc.assert(
      fc.property(history, (roles) => {
        const long = roles.map((role, i): Message => ({ role, content: `${i}` }));
        const short = shortenedHistory(long);
        expect(short.slice(0, 4)).toEqual(long.slice(0, 4));
        expect(short.slice(-6)).toEqual(long.slice(-6));
        for (const role of new Set(roles)) expect(short).toContain(long.findLast((message) => message.role === role));
        const places = short.map((message) => long.indexOf(message));
        expect(places).toEqual(places.toSorted((a, b) => a - b));
        const meets = (list: readonly Message[]) => list.slice(1).map(({ role }, i) => `${list[i]!.role} ${role}`);
        expect(new Set(meets(long))).toEqual(new Set([...meets(long), ...meets(short)]));
        expect((long.length - short.length) % 2).toBe(0);
      }),
    );
  });
});

describe('isMilestone', () => {
  it('is met by each conversation as often as it doubles, first where its history is no longer whole', () => {
    const met = Array.from({ length: 130 }, (_, rounds) => chat(rounds)).filter(isMilestone);
    expect(met.map(({ length }) => length)).toEqual([17, 33, 65, 129, 257]);
    expect(
      Array.from({ length: 130 }, (_, rounds) => loop(rounds))
        .filter(isMilestone)
        .map(({ length }) => length),
    ).toEqual([18, 34, 66, 130, 258]);
  });
});

describe('a bridge late in a conversation', () => {
  it.each(PUBLISHED.map((template) => [template.file, template] as const))('is what %s writes there after all messages', async (_, template) => {
    const tokenizer = await openLocalTokenizer(writeTemplateModel(folder.path, template));
    const mark = (await tokenizer.encode('\uE0F5')).ids.join();
    const outcome = (ids: Promise<string>) => ids.catch((error: Error) => error.message.slice(0, 60));
    const mixed = [...loop(9), assistant(98), user(99), ...loop(9).slice(2)];
    for (const [history, next] of [
      [chat(12), [user(99)]],
      [loop(12), [tool(99), user(100)]],
      [mixed, [tool(99)]],
    ] as const) {
      const bridge = tokenizer.renderNext(history, next).then(({ ids }) => ids.join());
      const whole = tokenizer.render([...history, { role: 'assistant', content: '\uE0F5' }, ...next]).then(({ ids }) => ids.join());
      expect(await outcome(bridge)).toBe(await outcome(whole.then((ids) => ids.split(`${mark},`)[1]!)));
    }
  });

  it('is taken from the whole history once a template has written something else after a short one', async () => {
    const counting = `{% for m in messages %}<|im_start|>{{ m.role }} {{ loop.index }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n`;
    const tokenizer = await openLocalTokenizer(writeTemplateModel(folder.path, published('chatml')), { chatTemplate: counting });
    const bridge = async (rounds: number) => tokenizer.decode((await tokenizer.renderNext(chat(rounds), [user(99)])).ids);
    for (const rounds of [7, 8, 9, 15, 40]) expect(await bridge(rounds)).toContain(`user ${2 * rounds + 3}\n`);
  });
});
