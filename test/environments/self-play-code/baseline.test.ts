import { describe, expect, it } from 'vitest';
import { lastLiteralBaseline } from '../../../environments/self-play-code/baseline.ts';
import { solutionText } from '../../../environments/self-play-code/check-solution.ts';
import { type PromptStyle, solvePrompt } from '../../../environments/self-play-code/prompt.ts';
import type { TaskRecord } from '../../../environments/self-play-code/records.ts';
import { parseReply } from '../../../environments/self-play-code/reply.ts';

const io = { snippet: 'def f(a):\n    return a[:2]', input: "'it\\'s'", output: "'it'", imports: [] };
const RECORDS: readonly TaskRecord[] = [
  { kind: 'code_o', ...io },
  { kind: 'code_i', ...io },
  { kind: 'code_e', ...io, output: 'NoError' },
  { kind: 'code_f', snippet: io.snippet, inputs: ['-1.5', '7'], outputs: ['-1.5', '7'], message: '', imports: [] },
];

function solution(style: PromptStyle, record: TaskRecord): string | null {
  const { isWellFormed, answer } = parseReply(lastLiteralBaseline(style).reply(solvePrompt(style, record)), style);
  return isWellFormed ? solutionText(record.kind, answer, style) : null;
}

describe('lastLiteralBaseline', () => {
  it.each(['full', 'mini'] as const)('answers every kind of task in the right format, with the last literal of the prompt (%s)', (style) => {
    const [output, input, error, program] = RECORDS.map((record) => solution(style, record));
    expect(output).toBe("'it\\'s'");
    expect(input).toBe("'it'");
    expect(error).toBe("'it\\'s'");
    expect(program).toMatch(/^def f\(\*?a\):\s*return -1\.5$/);
  });

  it('answers None where the prompt has no literal', () => {
    expect(solution('mini', { kind: 'code_o', ...io, snippet: 'def f(a):return a', input: 'None' })).toBe('None');
  });
});
