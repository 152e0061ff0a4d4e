import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Message } from '../../src/core/message.ts';
import { toolCallingBaseline } from '../../src/core/tool-calling-baseline.ts';
import { parseToolCalls } from '../../src/core/tool-calls.ts';

const user = (content: string): Message => ({ role: 'user', content });
const echo = toolCallingBaseline({
  calls: (question, results) => (results.length < 2 ? [{ name: 'look', arguments: { question, seen: results.length } }] : []),
  answer: (question, results) => JSON.stringify({ question, results }),
});

describe('toolCallingBaseline', () => {
  it('gives the script the question and every result, of native and of text calls', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), fc.string(), (question, first, second) => {
        const start: Message[] = [{ role: 'system', content: 'Rules.' }, user(`Q${question}`)];
        const wanted = { question: `Q${question}`, results: [first, second] };
        const native: Message[] = [
          { role: 'tool', content: first, toolCallId: 'a' },
          { role: 'assistant', content: '' },
          { role: 'tool', content: second, toolCallId: 'b' },
        ];
        expect(JSON.parse(echo.reply([...start, ...native]))).toEqual(wanted);
      }),
    );
    const block = (text: string) => `<tool_response>\n${text}\n</tool_response>`;
    expect(JSON.parse(echo.reply([user('Q'), user(`${block('one\ntwo')}\n${block('')}`)]))).toEqual({ question: 'Q', results: ['one\ntwo', ''] });
  });

  it('writes calls that the parser of Hermes and Qwen reads, whatever the arguments hold', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ name: fc.constantFrom('a', 'b-c'), arguments: fc.dictionary(fc.string(), fc.jsonValue()) }), {
          minLength: 1,
          maxLength: 3,
        }),
        (calls) => {
          const baseline = toolCallingBaseline({ calls: () => calls, answer: () => '' });
          const plain = JSON.parse(JSON.stringify(calls)) as typeof calls;
          expect(parseToolCalls(baseline.reply([user('Q')]))).toEqual(plain.map(({ name, arguments: args }) => ({ name, args })));
        },
      ),
    );
  });
});
