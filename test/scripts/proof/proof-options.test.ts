import { execFileSync, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseProofOptions, UsageError } from '../../../scripts/proof/proof-options.ts';
import { PROOFS } from '../../../scripts/proof/proofs.ts';

const ROOT = join(import.meta.dirname, '../../..');
const parse = (name: string, ...args: string[]) => parseProofOptions(name, PROOFS[name]!, args);

describe('parseProofOptions', () => {
  it('writes to docs/results only what is proved as a whole', () => {
    expect(parse('laptop')).toMatchObject({ command: 'npm run prove laptop', seeds: [0, 1, 2], output: join(ROOT, 'docs/results') });
    expect(parse('laptop', '--quick')).toMatchObject({
      command: 'npm run prove laptop -- --quick',
      quick: true,
      seeds: [0],
      output: join(ROOT, 'outputs/prove-laptop-quick'),
      runs: join(ROOT, 'outputs/prove-laptop-quick'),
    });
    expect(parse('seeds', '--only', 'grpo-000')).toMatchObject({ only: ['grpo-000'], output: join(ROOT, 'outputs/prove-seeds') });
    expect(parse('visual', '--only', 'laptop,loop')).toMatchObject({ only: ['laptop', 'loop'], output: join(ROOT, 'docs/results') });
    expect(parse('laptop', '--output', 'here', '--set', 'a=1', '--set', 'b=2', '--seeds', '3')).toMatchObject({
      output: 'here',
      settings: ['a=1', 'b=2'],
      seeds: [3],
    });
  });

  it.each([
    [['seeds', '--only', 'grpo-001'], /--only grpo-001 is none of grpo-000, search-o1\./],
    [['laptop', '--strict-time'], /Unknown option '--strict-time'\. prove laptop takes --quick, --seeds, /],
    [['laptop', 'quick'], /prove laptop takes --quick/],
    [['laptop', '--seeds', '0,x'], /--seeds must be a whole number of at least 0, got "x"\./],
    [['real-model', '--threads', '0'], /--threads must be a whole number of at least 1, got "0"\./],
  ])('refuses %j', ([name, ...args], text) => {
    expect(() => parse(name!, ...args)).toThrow(expect.objectContaining({ constructor: UsageError, message: expect.stringMatching(text) }));
  });
});

describe('npm run prove', () => {
  const script = ['--conditions=vf-search-source', join(ROOT, 'scripts/prove.ts')];

  it('lists every proof without a name, and refuses an unknown one with exit code 2', () => {
    const listed = execFileSync(process.execPath, script, { encoding: 'utf8' });
    for (const [name, { about }] of Object.entries(PROOFS)) expect(listed).toMatch(new RegExp(`^  ${name} +${about.slice(0, 20)}`, 'm'));
    const { status, stderr } = spawnSync(process.execPath, [...script, 'toaster'], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([2, `prove: Unknown proof toaster. Choose from ${Object.keys(PROOFS).join(', ')}.\n`]);
  });
});
