import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConfigError } from 'vf-search';
import { afterAll, describe, expect, it } from 'vitest';
import { parseArguments } from '../../../environments/self-play-code/arguments.ts';

const folder = mkdtempSync(join(tmpdir(), 'vf-self-play-arguments-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('parseArguments of self-play-code', () => {
  it('has the defaults that the README lists', async () => {
    const { settings, execution, limits, ...rest } = await parseArguments({}, 'evaluation');
    expect(settings).toMatchObject({ prompt: 'full', kinds: ['code_i', 'code_o', 'code_f'], rewards: 'accuracy', functionScore: 'binary' });
    expect(settings).toMatchObject({
      inputCount: 10,
      references: 6,
      novelty: false,
      filter: 'all',
      mix: 'max_new',
      replay: null,
      maxPrograms: 16_384,
    });
    expect(settings).toMatchObject({
      trainProbes: true,
      trainPropose: true,
      critics: 0,
      dimensions: ['novelty', 'depth', 'diversity', 'persistence', 'rigor'],
    });
    expect(settings.banned).toHaveLength(16);
    expect(execution).toEqual({ executor: 'wasi', workers: 2 });
    expect(limits).toMatchObject({ seconds: 2, memoryBytes: 64 * 2 ** 20, reprLength: 4000 });
    expect(rest).toMatchObject({ dataset: 'mini-python', seeds: 'python-programs', tasks: null, proposals: null, responseTokens: null });
  });

  it('has others for the short prompts of the bundled model', async () => {
    const { settings, seeds } = await parseArguments({ prompt: 'mini' }, 'evaluation');
    expect([settings.inputCount, settings.references, seeds]).toEqual([4, 0, 'mini-python']);
  });

  it('pays by Absolute Zero in training, by the specification where its YAML is given, and as asked in both', async () => {
    const file = join(folder, 'crsp.yaml');
    writeFileSync(file, 'crsp:\n  executor_max_workers: 3\nreward_structure:\n  alpha_decay:\n    enabled: false\n');
    const rewards = async (args: Record<string, unknown>, purpose: 'evaluation' | 'training') =>
      (await parseArguments(args, purpose)).settings.rewards;
    expect([await rewards({}, 'training'), await rewards({ config: file }, 'training'), await rewards({ config: file }, 'evaluation')]).toEqual([
      'azr',
      'crsp',
      'accuracy',
    ]);
    expect(await rewards({ config: file, rewards: 'azr' }, 'training')).toBe('azr');
    const { settings, execution, named } = await parseArguments({ config: file }, 'training');
    expect(settings).toMatchObject({ critics: 2, schedule: 'constant' });
    expect(execution.workers).toBe(3);
    expect(named['config']).toEqual(['crsp.executor_max_workers', 'reward_structure.alpha_decay.enabled']);
  });

  it('prefers an argument to the YAML', async () => {
    const config = { crsp: { problem_types: ['code_o'], executor_max_workers: 3 } };
    const { settings, execution } = await parseArguments({ config, kinds: ['code_e'], execution: { executor: 'none', workers: 1 } }, 'training');
    expect([settings.kinds, execution]).toEqual([['code_e'], { executor: 'none', workers: 1 }]);
  });

  it('takes camelCase, takes null for missing, and names what is in effect in snake_case', async () => {
    const { settings, limits, responseTokens, named } = await parseArguments(
      { numInputs: 6, timeout_s: 0.5, memoryMb: 48, max_response_length: 99, novelty: null, execution: 'bubblewrap' },
      'evaluation',
    );
    expect([settings.inputCount, settings.novelty, limits.seconds, limits.memoryBytes, responseTokens]).toEqual([6, false, 0.5, 48 * 2 ** 20, 99]);
    expect(named).toMatchObject({
      num_inputs: 6,
      memory_mb: 48,
      timeout_s: 0.5,
      max_response_length: 99,
      execution: { executor: 'bubblewrap', workers: 2 },
    });
    expect(Object.keys(named).filter((name) => /[A-Z]/.test(name))).toEqual([]);
  });

  it('chooses the prompt and the creativity of critics, and notices what changes nothing', async () => {
    const notices = async (args: Record<string, unknown>) => (await parseArguments(args, 'training')).notices;
    const crsp = { rewards: 'crsp', grading: 'document', creativity: 'self' };
    const { settings, named } = await parseArguments(crsp, 'training');
    expect([settings.grading, settings.creativity, settings.critics]).toEqual(['document', 'self', 2]);
    expect(named).toMatchObject({ grading: 'document', creativity: 'self' });
    expect(Object.keys((await parseArguments({}, 'training')).named)).not.toContain('grading');
    expect(await notices(crsp)).toEqual([]);
    expect(await notices({ ...crsp, dimensions: ['depth'] })).toEqual([expect.stringContaining('has its own dimensions') as string]);
    expect(await notices({ dimensions: ['wit'] })).toEqual([expect.stringMatching(/^dimensions changes nothing without critics/) as string]);
    expect(await notices({ grading: 'scores' })).toEqual([expect.stringMatching(/^grading changes nothing without critics/) as string]);
    expect(await notices({ config: { crsp: { executor_cleanup_frequency: 1 } } })).toEqual([
      expect.stringMatching(/^crsp\.executor_cleanup_frequency/) as string,
    ]);
  });

  it.each([
    [{ grading: 'seed' }, 'grading must be "own" or "document" or "scores"'],
    [{ grading: 'scores', prompt: 'mini', rewards: 'crsp' }, 'grading = "scores" is a prompt of the style "full", but prompt is "mini"'],
    [{ num_inputs: 1 }, 'num_inputs must be an integer of at least 2'],
    [{ timeout_s: 0 }, 'timeout_s must be a number from 0.01 to 86400'],
    [{ timeout_s: 90_000 }, 'timeout_s must be a number from 0.01 to 86400'],
    [{ memory_mb: 5000 }, 'memory_mb must be an integer from 32 to 4096'],
    [{ max_repr_length: 1e9 }, 'max_repr_length must be an integer from 1 to 16777216'],
    [{ banned: ['os', 'os'] }, 'banned must be a list of words, none twice'],
    [{ mix: 'newest' }, 'mix must be "max_new" or "half_new"'],
    [{ bonuses: { novelty: { coef: 1 } } }, 'bonuses must be an object with complexity, edit_distance, halstead, diversity'],
    [{ execution: { workers: 0 } }, 'execution must be'],
    [{ critics: 1, rewards: 'azr' }, 'critics needs the rewards "crsp"'],
    [{ config: 'nowhere.yaml' }, 'nowhere.yaml'],
    [{ novel: true }, 'has no argument "novel"'],
  ])('refuses %j', async (args, problem) => {
    const refused = parseArguments(args, 'training');
    await expect(refused).rejects.toThrow(ConfigError);
    await expect(refused).rejects.toThrow(problem);
  });
});
