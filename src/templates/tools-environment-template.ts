/** The files that differ with `vf-init --tools`: a chat environment with a tool that the model calls natively. */
import { HELD_OUT_ROWS } from './template-rows.ts';

export function toolsEnvironment(id: string): string {
  return `/** ${id}: the model gets a question, can look up notes with a native tool call, and must give one of the golden answers. */
import { fileURLToPath } from 'node:url';
import { Dataset, defineTool, integerArgument, loadRows, readArguments, reward, Rubric, ToolEnv } from 'vf-search';
import type { QuestionRow, RewardContext, Row } from 'vf-search';

const ROWS = fileURLToPath(new URL('rows.jsonl', import.meta.url));
/** Number of rows at the end that are held out for evaluation; training never sees them. */
const HELD_OUT = ${HELD_OUT_ROWS};
const TASK = 'Look things up with find_note before you answer. End with <answer> your answer </answer>, in a few words.';

interface NoteRow extends Row {
  readonly info: { readonly answers: readonly string[] };
}

/** The two notes that share the most words of three letters or more with the query, best first. */
function findNotes(notes: readonly string[], query: string): string[] {
  const wordsOf = (text: string) => new Set(text.toLowerCase().match(/\\p{L}{3,}/gu));
  const asked = wordsOf(query);
  const score = (note: string) => [...wordsOf(note)].filter((word) => asked.has(word)).length;
  return notes.filter((note) => score(note) > 0).toSorted((a, b) => score(b) - score(a)).slice(0, 2);
}

/** Reads only the last turn: text before a tool call is not the answer. */
function exactMatch({ row, segments }: RewardContext<NoteRow>): number {
  const last = segments.findLast(({ kind }) => kind === 'model')?.text ?? '';
  const answer = /<answer>(.*?)<\\/answer>/s.exec(last)?.[1]?.trim().toLowerCase();
  return row.info.answers.some((golden) => golden.toLowerCase() === answer) ? 1 : 0;
}

/** 1 for up to 20 words over all turns, falling to 0 at 100: a model that knows no answer yet learns to be brief first. */
function brevity({ modelText }: RewardContext<NoteRow>): number {
  const words = modelText.split(/\\s+/).length;
  return Math.min(1, Math.max(0, (100 - words) / 80));
}

function toRow(row: QuestionRow): NoteRow {
  const prompt = [
    { role: 'system' as const, content: TASK },
    { role: 'user' as const, content: row.question },
  ];
  return { exampleId: row.id, prompt, info: { answers: row.golden_answers } };
}

/** \`vf-eval ${id} -a '{"limit": 3}'\` calls this with \`{ limit: 3 }\`. */
export async function loadEnvironment(args: { readonly limit?: number } = {}): Promise<ToolEnv<NoteRow>> {
  const { limit } = readArguments('${id}', { limit: integerArgument(1) }, args);
  const { rows } = await loadRows({ dataset: ROWS });
  const notes = rows.map((row, i) => \`Doc \${i + 1}(Title: \${String(row['title'])}) \${String(row['note'])}\`);
  const findNote = defineTool({
    name: 'find_note',
    description: 'Finds notes that contain words of a query.',
    parameters: {
      type: 'object',
      properties: { query: { type: 'string', description: 'What to look for' } },
      required: ['query'],
      additionalProperties: false,
    },
    // The second parameter is { signal, state }; a tool may change the state, which belongs to the episode.
    execute: ({ query }) => findNotes(notes, String(query)).join('\\n') || 'No note contains these words.',
  });
  const split = (name: string, part: readonly QuestionRow[]) => new Dataset(name, part.slice(0, limit).map(toRow));
  return new ToolEnv({
    id: '${id}',
    train: split('${id}-train', rows.slice(0, -HELD_OUT)),
    eval: split('${id}', rows.slice(-HELD_OUT)),
    rubric: new Rubric({ funcs: [reward(exactMatch), reward(brevity, { weight: 0.1 })] }),
    tools: [findNote],
    calls: 'native', // the model's chat template, or the API, defines how tools and calls are written
    maxTurns: 4,
    limits: { responseTokens: 300, contextTokens: 4096 },
  });
}
`;
}

export function toolsTest(id: string): string {
  return `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Random } from 'vf-search';
import { loadEnvironment } from './environment.ts';

test('${id} answers a tool call and ends with the answer', async () => {
  const environment = await loadEnvironment();
  const { signal } = new AbortController();
  const ended = { finish: 'stop', stopReason: null, signal } as const;
  for (const row of [...environment.train, ...environment.eval]) {
    const episode = await environment.start(row, { random: Random.fromSeed(0), signal });
    assert.deepEqual(episode.tools?.map(({ name }) => name), ['find_note']);
    const question = String(row.prompt.at(-1)?.content);
    const call = { id: 'call00000', name: 'find_note', args: { query: question }, text: '' };
    const { observation, stop } = await episode.step('', { ...ended, toolCalls: [call] });
    assert.equal(stop, null);
    const [found] = observation !== null && 'messages' in observation ? observation.messages : [];
    assert.equal(found?.role, 'tool');
    assert.match(String(found?.content), new RegExp(row.info.answers[0]!));
    const answer = \`<answer> \${row.info.answers[0]} </answer>\`;
    assert.equal((await episode.step(answer, { ...ended, toolCalls: [] })).stop, 'no_tools_called');
    const score = await environment.rubric.score({
      ...{ row, signal, prompt: episode.prompt, state: episode.state, stop: 'completed', parser: environment.rubric.parser, models: {} },
      ...{ segments: [{ kind: 'model', text: answer }], scoredText: answer, modelText: answer },
    });
    assert.equal(score.metrics['exactMatch'], 1);
    assert.equal(score.metrics['find_note_calls'], 1);
    await episode[Symbol.asyncDispose]();
  }
  await environment.close();
});
`;
}
