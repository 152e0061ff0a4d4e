import { Random } from 'vf-search';
import { describe, expect, it } from 'vitest';
import { type BufferEntry, ProgramBuffer } from '../../../environments/self-play-code/buffer.ts';
import type { TaskKind, TaskRecord } from '../../../environments/self-play-code/records.ts';

function program(name: string, kind: Exclude<TaskKind, 'code_f'> = 'code_o'): TaskRecord {
  return { kind, snippet: `def f(a):return '${name}'`, input: '1', output: `'${name}'`, imports: [] };
}

function entry(name: string, step: number, accuracy: number | null = 0.5, kind: Exclude<TaskKind, 'code_f'> = 'code_o'): BufferEntry {
  return { record: program(name, kind), step, accuracy };
}

const draw = (buffer: ProgramBuffer, options: Partial<Parameters<ProgramBuffer['draw']>[0]> = {}) =>
  buffer
    .draw({ kind: 'code_o', count: 2, mix: 'uniform_total', newSince: 2, random: Random.fromSeed(7), ...options })
    .map(({ snippet }) => snippet.at(-2));

const byText = (a = '', b = '') => (a < b ? -1 : 1);

describe('ProgramBuffer', () => {
  it('keeps what its filter lets through, and always what the run began with', () => {
    const entries = [entry('a', 0, null), entry('b', 1, 0), entry('c', 1, 0.5), entry('d', 1, 1)];
    const sizes = (['all', 'non_one', 'non_extremes'] as const).map((filter) => {
      const buffer = new ProgramBuffer({ filter });
      buffer.add(entries);
      return draw(buffer, { count: 9 }).toSorted(byText).join('');
    });
    expect(sizes).toEqual(['abcd', 'abc', 'ac']);
  });

  it('keeps the newest programs beyond its maximum', () => {
    const buffer = new ProgramBuffer({ maxPrograms: 2 });
    buffer.add([entry('a', 1), entry('b', 1)]);
    buffer.add([entry('c', 2)]);
    expect([buffer.size, draw(buffer).toSorted(byText)]).toEqual([2, ['b', 'c']]);
  });

  it('draws new programs first with max_new, half of each with half_new, and fills up with others', () => {
    const buffer = new ProgramBuffer();
    buffer.add([entry('o', 1), entry('p', 1), entry('q', 1)]);
    buffer.add([entry('x', 2), entry('y', 2), entry('z', 2)]);
    expect(draw(buffer, { mix: 'max_new' }).every((name) => 'xyz'.includes(name!))).toBe(true);
    const four = draw(buffer, { mix: 'max_new', count: 4 });
    expect([four.filter((name) => 'xyz'.includes(name!)).length, four.length]).toEqual([3, 4]);
    const half = draw(buffer, { mix: 'half_new', count: 6 });
    expect([...half].toSorted(byText)).toEqual(['o', 'p', 'q', 'x', 'y', 'z']);
    expect(half.slice(0, 3).toSorted(byText)).toEqual(['x', 'y', 'z']);
  });

  it('draws later programs more often with step', () => {
    const buffer = new ProgramBuffer();
    buffer.add([entry('a', 0), entry('z', 99)]);
    const random = Random.fromSeed(1);
    const counts = Map.groupBy(
      Array.from({ length: 400 }, () => draw(buffer, { mix: 'step', count: 1, random })[0]!),
      (name) => name,
    );
    expect(counts.get('z')!.length).toBeGreaterThan(380);
  });

  it('draws tasks of one kind, before a step, and the same ones for the same generator', () => {
    const buffer = new ProgramBuffer();
    buffer.add([entry('a', 1), entry('b', 2), entry('i', 1, 0.5, 'code_i')]);
    expect(draw(buffer, { kind: 'code_i' })).toEqual(['i']);
    expect(draw(buffer, { before: 2 })).toEqual(['a']);
    expect(draw(buffer)).toEqual(draw(buffer));
  });

  it('counts repeats over its state, whether programs were kept or not', () => {
    const buffer = new ProgramBuffer({ filter: 'non_extremes' });
    buffer.count(program('a'));
    buffer.add([entry('a', 1, 1), entry('b', 1)]);
    const later = new ProgramBuffer();
    later.load(JSON.stringify(buffer.toState()));
    expect([later.size, later.seen(program('a')), later.seen(program('a', 'code_i')), later.seen(program('b'))]).toEqual([1, 1, 1, 0]);
    expect(draw(later)).toEqual(['b']);
  });

  it('tells descriptions of one program apart by their inputs', () => {
    const described = (inputs: readonly string[]): TaskRecord => ({
      kind: 'code_f',
      snippet: 'def f(a):return a',
      inputs,
      outputs: inputs,
      message: '',
      imports: [],
    });
    const buffer = new ProgramBuffer();
    buffer.count(described(['1', '2']));
    expect([buffer.seen(described(['2', '1'])), buffer.seen(described(['1', '3']))]).toEqual([1, 0]);
  });

  it('refuses a state that is none', () => {
    for (const text of ['{}', 'null', '[]', '{"entries":', '{"entries":[],"seen":null}'])
      expect(() => new ProgramBuffer().load(text)).toThrow('Resume from an earlier checkpoint');
  });
});
