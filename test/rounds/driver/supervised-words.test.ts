import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { supervisedWords } from '../../../src/rounds/driver/supervised-words.ts';

let run: string;
beforeEach(() => {
  run = mkdtempSync(join(tmpdir(), 'vf-supervised-words-'));
});
afterEach(() => rmSync(run, { recursive: true }));

describe('supervisedWords', () => {
  it('names the pictures of a run that showed some, because its demonstrations name them by digest', () => {
    expect(supervisedWords({ path: 'sft.jsonl', count: 3, run })).toEqual(['--sft', 'sft.jsonl', '--set', 'sft.batch_size=3']);
    mkdirSync(join(run, 'images'));
    expect(supervisedWords({ path: 'sft.jsonl', count: 30, run })).toEqual([
      '--sft',
      'sft.jsonl',
      '--set',
      'sft.batch_size=8',
      '--set',
      `sft.images=${join(run, 'images')}`,
    ]);
  });
});
