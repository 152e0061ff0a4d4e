import { describe, expect, it } from 'vitest';
import { nextCommands, resumeCommand } from '../../../src/reports/evaluation/next-commands.ts';
import type { OpenedPolicy } from '../../../src/sessions/policy/open-policy.ts';
import type { Summary } from '../../../src/schemas/summary.ts';

const run = `${process.cwd()}/outputs/evals/a--b/0a1b2c3d`;
const rollouts = { planned: 2, recorded: 2, finished: 2, errored: 0 };
const summary = { complete: true, directory: run, policyKind: 'tokens', rollouts, errors: {} } as Summary;
const baseline = { kind: 'baseline', baseUrl: null } as OpenedPolicy;
const server = { kind: 'endpoint', baseUrl: 'http://h/v1' } as OpenedPolicy;
const embedded = (model: string) => ({ kind: 'embedded', baseUrl: null, model }) as OpenedPolicy;
const words = ['search-r1', '-n', '50', '-a', '{"topk": 5}'];
const commands = (change: Partial<Summary>, policy: OpenedPolicy, given = words) =>
  nextCommands({ ...summary, ...change }, { envId: 'search-r1', words: given, policy, laptopModel: 'nano-base' }).map((next) => next.command);

describe('resumeCommand', () => {
  it('is the same command with -R and the directory; a file of runs finds its own', () => {
    expect(resumeCommand(words, run)).toBe(`npx vf-eval search-r1 -n 50 -a '{"topk": 5}' -R outputs/evals/a--b/0a1b2c3d`);
    expect(resumeCommand(['runs.toml', '-A'], run)).toBe('npx vf-eval runs.toml -A -R');
    expect(resumeCommand(['search-r1', '-e', 'e.toml'], run)).toMatch(/ -R outputs/);
  });
});

describe('nextCommands', () => {
  it('offers a model after the baseline, with the same options', () => {
    expect(commands({}, baseline)).toEqual([`npx vf-eval search-r1 -n 50 -a '{"topk": 5}' -p vllm -m Qwen/Qwen2.5-3B-Instruct`]);
    expect(commands({}, baseline, ['search-r1', '-p', 'baseline'])).toEqual(['npx vf-eval search-r1 -p vllm -m Qwen/Qwen2.5-3B-Instruct']);
    const given = ['search-r1', '-n', '4', '--provider=baseline', '-a', '{"topk":1}', '-o', 'runs'];
    expect(commands({}, baseline, given)).toEqual([`npx vf-eval search-r1 -n 4 -a '{"topk":1}' -o runs -p vllm -m Qwen/Qwen2.5-3B-Instruct`]);
    expect(commands({}, baseline, ['runs.toml'])).toEqual([]);
  });

  it('offers training data after tokens, and nothing after a chat', () => {
    expect(commands({}, server)).toEqual(['npx vf-export outputs/evals/a--b/0a1b2c3d -o rollouts.jsonl']);
    expect(commands({ policyKind: 'chat' }, server)).toEqual([]);
  });

  it('offers to train the bundled base after it has played, and nothing of the kind after an adapter of it', () => {
    const exported = 'npx vf-export outputs/evals/a--b/0a1b2c3d -o rollouts.jsonl';
    expect(commands({}, embedded('nano-base'))).toEqual(['npx vf-train search-r1 --preset laptop', exported]);
    expect(commands({}, embedded('nano-step-000012'))).toEqual([exported]);
  });

  it('offers to continue where something is missing', () => {
    expect(commands({ complete: false }, server)[0]).toMatch(/ -R outputs/);
    expect(commands({ rollouts: { ...rollouts, finished: 1, errored: 1 }, errors: { PolicyError: 1 } }, baseline)[0]).toMatch(/ -R outputs/);
  });

  it('does not call it a retry where the policy had no room: the window must change first', () => {
    const why = (errors: Record<string, number>) =>
      nextCommands(
        { ...summary, rollouts: { ...rollouts, finished: 1, errored: 1 }, errors },
        { envId: 'search-r1', words, policy: server, laptopModel: null },
      )[0]!.why;
    expect(why({ UnplayedError: 1 })).toMatch(/once the window is larger/);
    expect(why({ UnplayedError: 1, PolicyError: 1 })).toBe('play the failed rollouts again');
  });

  it('offers to score before to play again where only rewards failed', () => {
    const failed = { rollouts: { ...rollouts, finished: 1, errored: 1 }, errors: { RewardError: 1 } };
    expect(commands(failed, server, ['my-env', '--env-dir-path', 'envs'])).toEqual([
      'npx vf-score outputs/evals/a--b/0a1b2c3d --failed --in-place --env-dir-path envs',
      'npx vf-eval my-env --env-dir-path envs -R outputs/evals/a--b/0a1b2c3d',
    ]);
    expect(commands({ ...failed, errors: { RewardError: 1, PolicyError: 1 } }, server)).toHaveLength(1);
  });
});
