/** The prompt of a teacher that knows the passage: the row's own, with a text before the question, by the ids of the student's tokenizer. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Dataset, type Row } from '../../../../src/core/dataset.ts';
import { Rubric } from '../../../../src/core/rubric.ts';
import { SingleTurnEnv } from '../../../../src/core/single-turn.ts';
import { privilegedPrompt } from '../../../../src/sessions/training/teacher/privileged-prompt.ts';
import { openLocalTokenizer } from '../../../../src/tokenizer/local-tokenizer.ts';
import { trajectory } from '../../../trainer/some-trajectories.ts';

const NANO = join(import.meta.dirname, '../../../models/nano-base');
const { signal } = new AbortController();
const tokenizer = await openLocalTokenizer(NANO);
const ask = (content: string) => [{ role: 'user' as const, content }];
const TEMPLATE = 'Known: {info.passages} So: {answer}';
const QUESTION = 'Question: Who is the mayor of Trafam?';
const rows: readonly Row[] = [
  { exampleId: 'q0', prompt: ask(QUESTION), answer: 'Zarfarlo', info: { passages: ['The mayor is Zarfarlo.', 'It is old.'] } },
  { exampleId: 'q1', prompt: ask(QUESTION), answer: 'Zarfarlo', info: { passages: [] } },
];

function promptOf(turnFormat: 'continuation' | 'chat') {
  const dataset = new Dataset('asked', rows);
  const environment = new SingleTurnEnv({
    id: 'asked',
    turnFormat,
    train: dataset,
    eval: dataset,
    limits: { responseTokens: 8 },
    rubric: new Rubric({ funcs: [] }),
  });
  return privilegedPrompt({ template: TEMPLATE, environment, tokenizer });
}

async function played(rolloutId: string, prompt: string, format: 'continuation' | 'chat') {
  const { ids } = await tokenizer.render(ask(prompt), { format, tools: [], bos: 'model' });
  return trajectory(rolloutId, {
    ids: Int32Array.from([...ids, 7, 8]),
    promptLength: ids.length,
    targets: Int32Array.of(ids.length, ids.length + 1),
  });
}

describe('privilegedPrompt', () => {
  it.each(['continuation', 'chat'] as const)('tells the teacher of a %s what the template says of the row', async (format) => {
    const found = await promptOf(format)(await played('q0/3', QUESTION, format), signal);
    const told = `Known: The mayor is Zarfarlo.\nIt is old. So: Zarfarlo\n\n${QUESTION}`;
    expect([...found!]).toEqual([...(await tokenizer.render(ask(told), { format, tools: [], bos: 'model' })).ids]);
  });

  it('gives none for a row without the value, for an unknown row, and for a prompt that is not of its row', async () => {
    const of = promptOf('continuation');
    expect(await of(await played('q1/0', QUESTION, 'continuation'), signal)).toBeNull();
    expect(await of(await played('elsewhere/0', QUESTION, 'continuation'), signal)).toBeNull();
    expect(await of(await played('q0/0', 'Question: Another?', 'continuation'), signal)).toBeNull();
  });
});
