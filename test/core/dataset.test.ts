import { describe, expect, it } from 'vitest';
import { Dataset, type Row } from '../../src/core/dataset.ts';
import { Random } from '../../src/core/random.ts';

const rows = Array.from({ length: 5 }, (_, exampleId) => ({ exampleId, prompt: [] }));
const dataset = new Dataset('five', rows);

describe('Dataset', () => {
  it('iterates its rows in order and gives each by index', () => {
    expect([...dataset]).toEqual(rows);
    expect(dataset.at(4)).toBe(rows[4]);
  });

  it('never repeats rows: an index outside is an error', () => {
    expect(() => dataset.at(5)).toThrow('five has no row 5; its rows are 0 to 4');
    expect(dataset.take(9).length).toBe(5);
    expect(dataset.take(0).length).toBe(0);
  });

  it.each([-1, 1.5, NaN, Infinity])('refuses to take %s rows', (n) => {
    expect(() => dataset.take(n)).toThrow(`The number of rows must be an integer of at least 0, got ${n}`);
  });

  it('shuffles by seed without losing a row', () => {
    const shuffled = dataset.shuffle(Random.fromSeed(1));
    expect([...shuffled]).toEqual([...dataset.shuffle(Random.fromSeed(1))]);
    expect(new Set(shuffled)).toEqual(new Set(rows));
  });

  it.each([
    [42, 'prompt must be a list of messages, got 42'],
    [['Who?'], 'prompt[0] must be a message with a role and a content, got "Who?"'],
    [[{ role: 'bot', content: 'Who?' }], 'prompt[0].role must be one of system, user, assistant, tool, got "bot"'],
    [[{ role: 'user', content: 42 }], 'prompt[0].content must be a string or a list of parts, got 42'],
    [
      [{ role: 'user', content: [{ type: 'text', text: 'Who?' }] }, { role: 'user' }],
      'prompt[1].content must be a string or a list of parts, got undefined',
    ],
    [
      [{ role: 'user', content: [{ type: 'image_url' }] }],
      "prompt[0].content[0] must be {type: 'text', text: string} or {type: 'image', image: reference}, got an object",
    ],
  ])('names the row and the field of a prompt with a fault: %j', (prompt, problem) => {
    const odd = { exampleId: 'q7', prompt } as unknown as Row;
    expect(() => new Dataset<Row>('six', [...rows, odd])).toThrow(`Row "q7" of six cannot be played: ${problem}. Correct the row.`);
  });

  it.each([
    [['a', 'b', 'a'], 'The rows 0 and 2 both have the id "a" in six. Give each its own exampleId.'],
    [[1, '1'], 'The rows 0 and 1 both have the id "1" in six. Give each its own exampleId.'],
    [[NaN], 'Row null of six cannot be played: exampleId must be a string or a number, got null.'],
    [[undefined], 'Row at position 0 of six cannot be played: exampleId must be a string or a number, got undefined.'],
  ])('gives every row an id of its own: %j', (ids, message) => {
    expect(
      () =>
        new Dataset(
          'six',
          ids.map((exampleId) => ({ exampleId, prompt: [] }) as unknown as Row),
        ),
    ).toThrow(message);
  });

  it('takes a field that is null, as in JSON, as left out', () => {
    const row = { exampleId: 'a', prompt: [{ role: 'user', content: 'Say hello.' }], answer: null, info: null, task: null } as unknown as Row;
    expect(new Dataset('one', [row]).at(0)).toStrictEqual({ exampleId: 'a', prompt: row.prompt });
  });

  it('refuses a row that is not an object', () => {
    expect(() => new Dataset('six', [null as unknown as Row])).toThrow('Row at position 0 of six cannot be played: it must be an object');
  });
});
