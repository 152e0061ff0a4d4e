import { describe, expect, it } from 'vitest';
import { parseYaml } from '../../src/pipelines/parse-yaml.ts';
import { PipelineFileError } from '../../src/pipelines/pipeline-error.ts';

describe('parseYaml', () => {
  it('reads YAML 1.1 as PyYAML does: words for booleans, octal and sexagesimal integers, merged tables, no dates', () => {
    const text = 'a: yes\nb: off\nc: 010\nd: 1:30\nbase: &base {x: 1}\ne: {<<: *base, y: n}\nf: 2024-01-02\ng: ~\nh: 0x1F\ni: 1_000\nj: "7"\n';
    expect(parseYaml(text, 'f')).toEqual({
      a: true,
      b: false,
      c: 8,
      d: 90,
      base: { x: 1 },
      e: { x: 1, y: 'n' },
      f: '2024-01-02',
      g: null,
      h: 31,
      i: 1000,
      j: '7',
    });
  });

  it.each([
    ['a tag of Python', 'a: !!python/object/apply:os.system ["id"]', /^f is not valid YAML: Unresolved tag/],
    ['a local tag', 'a: !env HOME', /Unresolved tag/],
    ['bytes', 'a: !!binary aGk=', /Unresolved tag/],
    ['a key twice', 'a: 1\na: 2', /keys must be unique/],
    ['an open list', 'a: [1', /^f is not valid YAML/],
    ['a tab', 'a:\n\t- 1', /^f is not valid YAML/],
    ['an integer beyond 2^53', 'a: 9007199254740993', /^f has the integer 9007199254740993, which is beyond 2\^53; write it in quotes$/],
    ['an unknown alias', 'a: *nowhere', /^f (is not valid|cannot be read as) YAML/],
    ['lists inside each other', '['.repeat(5000) + ']'.repeat(5000), /^f /],
  ])('refuses %s in one line', (_, text, message) => {
    let thrown: unknown;
    try {
      parseYaml(text, 'f');
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(PipelineFileError);
    expect((thrown as Error).message).toMatch(message);
    expect((thrown as Error).message).not.toContain('\n');
  });

  it('refuses an alias bomb', () => {
    const levels = Array.from({ length: 12 }, (_, i) => `l${i + 1}: &l${i + 1} [${Array.from({ length: 10 }, () => `*l${i}`).join(', ')}]`);
    expect(() => parseYaml(['l0: &l0 x', ...levels].join('\n'), 'f')).toThrow('f has too many aliases');
  });

  it('keeps a key called __proto__ a key', () => {
    const value = parseYaml('__proto__: {polluted: 1}', 'f') as object;
    expect(Object.keys(value)).toEqual(['__proto__']);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });
});
