/** A chat environment with native tools, as `vf-init --tools` writes it, evaluated, exported and trained by token ids on a real vLLM. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { NANO_MODEL } from '../loopback/vllm-client.ts';
import { largestLogProbError } from './prompt-logprobs.ts';
import { PYTHON } from './train-process.ts';

const ROOT = join(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'vf-vllm-chat-'));
afterAll(() => rmSync(folder, { recursive: true }));

interface Rollout {
  readonly token_ids: readonly number[];
  readonly loss_mask: readonly number[];
  readonly logprobs: readonly (number | null)[];
  readonly segments: readonly { readonly kind: string; readonly start: number; readonly end: number }[];
}

async function run(command: string, ...args: readonly string[]): Promise<string> {
  const path = join(ROOT, 'bin', `${command}.js`);
  const { stdout } = await promisify(execFile)(process.execPath, [path, ...args], { cwd: folder, maxBuffer: 64 * 2 ** 20 });
  return stdout;
}

beforeAll(async () => {
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(ROOT, join(folder, 'node_modules/vf-search'));
  await run('vf-init', 'notes', '--tools');
});

describe('a chat environment with native tools on a real vLLM', () => {
  it('is played by token ids: several turns, the server’s own log-probs, its ends of turns trained', async () => {
    const url = inject('vllmUrl');
    // The nano model calls no tools: the episode continues nevertheless, because two turns are what is looked at.
    const args = ['-b', url, '-m', NANO_MODEL, '-r', '2', '-t', '24', '-o', folder, '--json'];
    const guesses = JSON.parse(await run('vf-eval', join(ROOT, 'examples/guess-the-number.ts'), ...args)) as {
      directory: string;
      policy_kind: string;
    };
    const tools = JSON.parse(await run('vf-eval', 'notes', ...args)) as typeof guesses;
    expect([guesses.policy_kind, tools.policy_kind]).toEqual(['tokens', 'tokens']);
    for (const [{ directory }, leastTurns] of [
      [guesses, 8],
      [tools, 1],
    ] as const) {
      const file = join(directory, 'rollouts.jsonl');
      await run('vf-export', directory, '-o', file);
      const rollouts = readFileSync(file, 'utf8')
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as Rollout);
      for (const { token_ids: ids, loss_mask: mask, logprobs: logProbs, segments } of rollouts) {
        expect(segments.filter(({ kind }) => kind === 'model').length).toBeGreaterThanOrEqual(leastTurns);
        const { error, tokens } = await largestLogProbError(url, NANO_MODEL, { ids, mask, logProbs });
        expect(tokens).toBeGreaterThan(0);
        expect(error).toBeLessThan(1e-4);
      }
    }
  });

  // As train.test.ts does, but through turns of a chat.
  it('trains, with the log-probs of the trainer equal to the server’s', { tags: 'long' }, async () => {
    const settings = {
      // What the server serves: the preset's own base model is another.
      'model.path': join(ROOT, 'test/models/nano-base'),
      steps: 2,
      'policy.embedded': 'null',
      'backend.kind': 'torch',
      'backend.python': PYTHON,
      'backend.threads': 1,
      'rollouts.examples_per_step': 4,
      'rollouts.max_tokens': 32,
      'evaluation.every': 0,
    };
    const sets = Object.entries(settings).flatMap(([key, value]) => ['--set', `${key}=${String(value)}`]);
    const printed = await run('vf-train', 'notes', '--preset', 'laptop', '-b', inject('vllmLoraUrl'), '-o', folder, '--json', ...sets);
    const { reason, version, directory } = JSON.parse(printed) as { reason: string; version: number; directory: string };
    expect({ reason, version }).toEqual({ reason: 'finished', version: 2 });
    const rows = readFileSync(join(directory, 'metrics.jsonl'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ kind }) => kind === 'step');
    expect(rows).toHaveLength(2);
    for (const row of rows) expect(row['log_prob_difference_max']).toBeLessThan(1e-4);
    for (const row of rows) expect(row['groups_trained']).toBeGreaterThan(0);
  });
});
