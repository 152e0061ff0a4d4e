import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { shellCommand } from '../../../src/reports/text/shell-text.ts';
import { parseTrainArguments } from '../../../src/cli/train/arguments.ts';
import { gpuCommand } from '../../../src/cli/train/gpu-command.ts';
import { resolveTraining } from '../../../src/sessions/training/resolve-training.ts';

const ROOT = join(import.meta.dirname, '../../..');

async function read(given: readonly string[]) {
  const parsed = parseTrainArguments(given, '1.2.3');
  if (parsed.kind !== 'train') throw new Error(`Expected a run, got ${parsed.kind}`);
  return resolveTraining(parsed, { variables: {}, environmentFile: '/nonexistent' });
}

/** What a shell makes of the line. */
function words(line: string): string[] {
  return spawnSync('/bin/sh', ['-c', `printf '%s\\0' ${line}`], { encoding: 'utf8' })
    .stdout.split('\0')
    .slice(0, -1);
}

const set = (...settings: readonly string[]) => settings.flatMap((text) => ['--set', text]);
const LAPTOP = ['search-r1', '--preset', 'laptop'];

const RUNS: [what: string, given: string[]][] = [
  ['the laptop preset', LAPTOP],
  [
    'the laptop preset with flags and settings',
    [
      ...LAPTOP,
      ...'--steps 7 -n 4 -r 6 -c 9 --lr 5e-4 --rank 4 --seed 3 --async --name mine -o /tmp/elsewhere'.split(' '),
      '-a',
      `{"topk": 2, "max_turns": null, "note": "it's \\"mine\\""}`,
      '--eval-args',
      '{"max_turns": 3}',
      ...set('rollouts.timeout_s=none', 'lora.targets=["q_proj", "v_proj"]', 'evaluation.examples=-1', 'optimizer.warmup_ratio=0.5'),
      ...set('policy.embedded.cache_tokens=4096', 'backend.threads=1', 'algorithm.kl.coefficient=1e-3', 'checkpoint.keep_rollouts=true'),
    ],
  ],
  [
    'a small model without a preset',
    ['search-r1', '--embedded', '-m', '/models/small qwen3', '--steps', '50', '--lr', '1e-3', '-a', '{"dataset": "nq-mini"}'],
  ],
  ["another environment than the preset's", ['./environments/my-own', '--preset', 'laptop', '-a', '{"rows": 5}']],
  [
    "Search-R1's own settings, fewer steps",
    ['search-r1', '--preset', 'search-r1-grpo', '--embedded', '-m', '/models/small', '--steps', '40', '-n', '8'],
  ],
  ['rollouts of this process for PyTorch', ['search-r1', '-m', 'nano-base', ...set('policy.embedded.threads=2'), '--python', '/venv/bin/python']],
];

describe('gpuCommand', () => {
  it.each(RUNS)('resolves to the numbers of the run, with vLLM and PyTorch in the place of the engine: %s', async (_, given) => {
    const { wire: run, preset } = await read(given);
    const { wire: onGpu } = await read(words(shellCommand(gpuCommand(run, preset))));
    const { policy, backend, output_dir: _dir, ...same } = onGpu;
    const { policy: before, backend: trained, output_dir: _before, ...wanted } = run;
    expect(same).toEqual(wanted);
    expect([before.embedded === null, policy.embedded, policy.base_url]).toEqual([false, null, null]);
    expect(policy.launch).toMatchObject({ python: 'python3' });
    const { max_tokens, gradient_checkpointing, max_restarts, timeout_s } = trained;
    expect(backend).toMatchObject({ kind: 'torch', python: 'python3', threads: null, max_tokens, gradient_checkpointing, max_restarts, timeout_s });
  });

  it('names no preset where the run names none, as a resumed one, and still has all of its settings', async () => {
    const { wire } = await read(LAPTOP);
    const line = shellCommand(gpuCommand(wire, null));
    expect(line).not.toContain('--preset');
    const { policy, backend, ...same } = (await read(words(line))).wire;
    const { policy: _policy, backend: _backend, ...wanted } = wire;
    expect(same).toEqual(wanted);
    expect([policy.embedded, backend.kind]).toEqual([null, 'torch']);
  });

  it('says no more than it must', async () => {
    const commandOf = async (given: readonly string[]) => {
      const { wire, preset } = await read(given);
      return shellCommand(gpuCommand(wire, preset));
    };
    expect(await commandOf(LAPTOP)).toBe('search-r1 --preset laptop --launch --set backend.kind=torch');
    const changed = [...LAPTOP, '--steps', '3', '-a', '{"topk": 5}', '--set', 'backend.threads=1'];
    expect(await commandOf(changed)).toBe(`search-r1 --preset laptop --launch -a '{"topk":5}' --steps 3 --set backend.kind=torch`);
  });

  it('is a command line that vf-train accepts', async () => {
    const { wire, preset } = await read([...LAPTOP, '--steps', '3', '--lr', '0.002']);
    const line = shellCommand(gpuCommand(wire, preset));
    const vfTrain = [process.execPath, '--conditions=vf-search-source', join(ROOT, 'src/cli/vf-train.ts')];
    const { status, stdout, stderr } = spawnSync('/bin/sh', ['-c', `${shellCommand(vfTrain)} ${line} --show-config`], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    for (const text of ['steps = 3 ', 'learning_rate = 0.002 ', 'kind = "torch" ', 'dataset = "fact-world"']) expect(stdout).toContain(text);
  });
});
