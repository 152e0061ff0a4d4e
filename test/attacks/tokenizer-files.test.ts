/** Tokenizers whose patterns backtrack without end. */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { nodeHost } from '../../src/engine/node-host.ts';
import { TimeExceeded } from '../../src/tokenizer/time-limit.ts';
import { withinTime } from '../../src/tokenizer/within-time.ts';
import { isRiskyPattern } from '../../src/tokenizer/pattern-risk.ts';
import { openTokenizer } from '../../src/tokenizer/open-tokenizer.ts';
import { RunTokenizers } from '../../src/viewing/run-tokenizers.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';
import { startNode } from './attacked-process.ts';

const NANO = join(import.meta.dirname, '../../models/nano-base');
/** Takes years on the text with which a tokenizer is probed. */
const HOSTILE = String.raw`((\S|\s)+)+` + '\u0001';
const PLAIN = ['x', 'x', 'x', 'x'] as const;
const USUAL = String.raw`[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|\s+(?!\S)|\s+`;

/** @param patterns each splits what the one before it left */
function writeTokenizer(folder: string, ...patterns: readonly string[]): string {
  const directory = join(folder, 'model');
  mkdirSync(directory);
  for (const file of ['config.json', 'tokenizer_config.json']) cpSync(join(NANO, file), join(directory, file));
  const tokenizer = JSON.parse(readFileSync(join(NANO, 'tokenizer.json'), 'utf8')) as Record<string, unknown>;
  const splits = patterns.map((pattern) => ({ type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false }));
  const bytes = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false };
  writeFileSync(
    join(directory, 'tokenizer.json'),
    JSON.stringify({ ...tokenizer, pre_tokenizer: { type: 'Sequence', pretokenizers: [...splits, bytes] } }),
  );
  return directory;
}

describe('openTokenizer', () => {
  it('refuses a tokenizer whose pattern takes too long', async () => {
    using folder = new TemporaryFolder();
    const soon = <T>(_: number, work: () => T): T => withinTime(50, work);
    await expect(openTokenizer(writeTokenizer(folder.path, HOSTILE), { withinTime: soon })).rejects.toThrow(
      /took more than [\d.]+ s to divide a text of \d+ characters/,
    );
  });

  it.each([
    ['as usual', [USUAL], false],
    ['as usual, the last of five', [...PLAIN, USUAL], false],
    ['that repeats too often', ['a*a*a*b'], true],
    ['that repeats too often, the last of five', [...PLAIN, 'a*a*a*b'], true],
  ] as const)('times a short text for a pattern %s: %#', async (_, patterns, isTimed) => {
    using folder = new TemporaryFolder();
    let timed = 0;
    const counting = <T>(_limitMs: number, work: () => T): T => (timed++, work());
    const tokenizer = await openTokenizer(writeTokenizer(folder.path, ...patterns), { withinTime: counting });
    timed = 0;
    tokenizer.encode('aaab', { addSpecialTokens: false });
    expect(timed > 0).toBe(isTimed);
  });

  it.each([
    ['the pattern of Qwen', [], false],
    ['another pattern', [USUAL], true],
  ] as const)('times a long text for %s: %#', async (_, patterns, isTimed) => {
    using folder = new TemporaryFolder();
    let timed = 0;
    const counting = <T>(_limitMs: number, work: () => T): T => (timed++, work());
    const directory = patterns.length === 0 ? NANO : writeTokenizer(folder.path, ...patterns);
    const tokenizer = await openTokenizer(directory, { withinTime: counting });
    tokenizer.encode('a '.repeat(1000), { addSpecialTokens: false });
    expect(timed > 0).toBe(isTimed);
  });

  it('has a limit of its own, as the engine has', { tags: 'long' }, async () => {
    expect(nodeHost.withinTime).toBe(withinTime);
    using folder = new TemporaryFolder();
    const script = `
      const { openTokenizer } = await import(${JSON.stringify(join(import.meta.dirname, '../../src/tokenizer/open-tokenizer.ts'))});
      await openTokenizer(${JSON.stringify(writeTokenizer(folder.path, HOSTILE))}).catch((error) => process.stdout.write(error.message));`;
    await using opening = startNode(['--input-type=module', '-e', script]);
    await opening.ended;
    expect(opening.stdout).toMatch(/took more than 5\.\d+ s to divide a text/);
  });

  it('opens one whose pattern nests repetitions that end', async () => {
    using folder = new TemporaryFolder();
    const tokenizer = await openTokenizer(writeTokenizer(folder.path, String.raw`(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|[\s\S]`));
    const ids = tokenizer.encode('two words', { addSpecialTokens: false });
    expect(tokenizer.decode(ids, { skipSpecialTokens: false })).toBe('two words');
  });
});

describe('withinTime', () => {
  it('ends a pattern and a loop, and hands on what the work gives or throws', () => {
    expect(() => withinTime(20, () => new RegExp(HOSTILE, 'u').test('x'.repeat(60)))).toThrow(TimeExceeded);
    expect(() =>
      withinTime(20, () => {
        for (;;);
      }),
    ).toThrow(TimeExceeded);
    expect(withinTime(1000, () => 'given')).toBe('given');
    const thrown = new RangeError('own');
    expect(() => withinTime(1000, () => { throw thrown; })).toThrow(thrown); // prettier-ignore
  });
});

describe('isRiskyPattern', () => {
  it.each([
    HOSTILE,
    '(a|a)*b',
    '(?:a?)+',
    '(a|ab)(c|bcd){30}',
    'a*a*a*b',
    '(?:(?:a+)?)*',
    '(x{1,5}){20}',
    String.raw`(?=(\w+)+$)x`,
    '((a)+)+',
    '(?<n>a+)+',
    '[a)](?:b|[b(])*',
    '['.repeat(20_000),
  ])('finds %s', (pattern) => expect(isRiskyPattern(pattern)).toBe(true));

  it.each([
    // Qwen, gpt-oss, DeepSeek, digits in threes.
    String.raw`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
    String.raw`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s+`,
    String.raw`[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
    String.raw`\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$))`,
  ])('lets %s run without a clock', (pattern) => expect(isRiskyPattern(pattern)).toBe(false));
});

describe('RunTokenizers', () => {
  it('opens no tokenizer that only the run names', async () => {
    using folder = new TemporaryFolder();
    const model = writeTokenizer(folder.path, HOSTILE);
    const hashOf = () => {
      throw new Error('opened');
    };
    expect(await new RunTokenizers({ given: null, hashOf }).find({ hash: null, model })).toEqual({
      tokenizer: null,
      problem: `Tokens show as ids, because the run's tokenizer is not that of a bundled model. Start vf-view with --tokenizer and the folder of ${model}.`,
    });
  });
});
