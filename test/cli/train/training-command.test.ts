import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseTrainArguments } from '../../../src/cli/train/arguments.ts';
import { resolveTraining } from '../../../src/sessions/training/resolve-training.ts';
import { trainingCommand } from '../../../src/cli/train/training-command.ts';
import { TemporaryFolder } from '../eval/temporary-folder.ts';

async function read(given: readonly string[]) {
  const parsed = parseTrainArguments(given, '1.2.3');
  if (parsed.kind !== 'train') throw new Error(`Expected a run, got ${parsed.kind}`);
  return resolveTraining(parsed, { variables: {}, environmentFile: '/nonexistent' });
}

async function commandOf(given: readonly string[]): Promise<string> {
  const { wire, preset } = await read(given);
  return trainingCommand(wire, preset);
}

/** What a shell makes of the line, after `npx -p vf-search vf-train`. */
function words(line: string): string[] {
  const all = spawnSync('/bin/sh', ['-c', `printf '%s\\0' ${line}`], { encoding: 'utf8' }).stdout.split('\0');
  expect(all.slice(0, 4)).toEqual(['npx', '-p', 'vf-search', 'vf-train']);
  return all.slice(4, -1);
}

/** Beside the settings, the parts that are the run's own. */
const RUNS: [what: string, given: string[], parts: readonly string[]][] = [
  ['the laptop preset', ['search-r1', '--preset', 'laptop', '--steps', '7', '-o', '/elsewhere'], ['policy', 'backend']],
  ['the embedded engine without a preset', ['search-r1', '--embedded', '-m', 'nano-base', '--lr', '1e-3'], ['policy', 'backend']],
  ['rollouts of this process for PyTorch', ['search-r1', '--embedded', '-m', 'nano-base', '--python', 'python3'], ['policy']],
  ['a vLLM that it starts', ['search-r1', '-m', 'Qwen/Qwen2.5-3B', '--launch', '--steps', '40', '-r', '4'], ['policy', 'backend']],
  ['a running server', ['search-r1', '-m', 'Qwen/Qwen2.5-3B', '-b', 'http://10.0.0.7:8000/v1', '--steps', '40'], ['backend']],
  [
    'supervised steps alone',
    ['search-r1', '-m', 'nano-base', '--sft', 'good.jsonl', '--steps', '5', '--set', 'backend.kind=embedded'],
    ['policy', 'backend'],
  ],
];

describe('trainingCommand', () => {
  it.each(RUNS)('resolves to the settings of the run: %s', async (_, given, parts) => {
    const { wire: run } = await read(given);
    const { wire: again } = await read(words(await commandOf(given)));
    const { policy, backend, output_dir: _dir, ...same } = again;
    const { policy: before, backend: trained, output_dir: _before, ...wanted } = run;
    expect(same).toEqual(wanted);
    const own = new Map<string, readonly unknown[]>([
      ['policy', [policy, before]],
      ['backend', [backend, trained]],
    ]);
    for (const part of parts) expect(own.get(part)![0]).toEqual(own.get(part)![1]);
  });

  it('says no more than it must', async () => {
    expect(await commandOf(['search-r1', '--preset', 'laptop'])).toBe('npx -p vf-search vf-train search-r1 --preset laptop');
    expect(await commandOf(['search-r1', '-m', 'Qwen/Qwen2.5-3B', '-b', 'http://10.0.0.7:8000/v1'])).toBe(
      'npx -p vf-search vf-train search-r1 -m Qwen/Qwen2.5-3B --launch',
    );
  });

  it('names no path of this machine: a cached model by its hub id, files by what is valid elsewhere', async () => {
    using folder = new TemporaryFolder();
    const cached = `/home/somebody/.cache/huggingface/hub/models--Qwen--Qwen2.5-3B/snapshots/${'0'.repeat(40)}`;
    const start = ['search-r1', '--launch', '-m'];
    expect(await commandOf([...start, cached])).toBe('npx -p vf-search vf-train search-r1 -m Qwen/Qwen2.5-3B --launch');
    expect(await commandOf([...start, folder.path])).not.toContain(folder.path);
    const corpus = folder.write('corpus.jsonl', '');
    const near = join(process.cwd(), 'package.json');
    const line = await commandOf([...start, 'Qwen/Qwen2.5-3B', '-a', JSON.stringify({ corpus, near, route: '/retrieve' })]);
    expect(line).toContain(`-a '{"corpus":"corpus.jsonl","near":"package.json","route":"/retrieve"}'`);
  });

  it('hides secrets by their names, of any length', async () => {
    const args = JSON.stringify({ judge: { api_key: 'abc' }, url: 'http://reader:pass@host/retrieve' });
    const line = await commandOf(['search-r1', '-m', 'Qwen/Qwen2.5-3B', '--launch', '-a', args]);
    expect(line).toContain(`-a '{"judge":{"api_key":"***"},"url":"http://***@host/retrieve"}'`);
  });
});
