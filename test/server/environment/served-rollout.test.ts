import { describe, expect, it } from 'vitest';
import { ServedRolloutSchema } from '../../../src/schemas/environment-server/served-rollout.ts';
import { TokenBuffer } from '../../../src/core/token-buffer.ts';
import { parseWire } from '../../../src/schemas/results.ts';
import { servedRollout } from '../../../src/server/environment/served-rollout.ts';
import { branchedRollout } from '../../rollouts/branched-rollout.ts';

const options = (kind: 'tokens' | 'chat') => ({
  capabilities: { kind, logProbsMode: 'raw' as const, tokenizerHash: null },
  sampling: {},
  redact: (text: string) => text,
  withMessages: true,
});

describe('servedRollout', () => {
  it.each(['tokens', 'chat'] as const)('has the first branch as a rollout of one has it, and the others in branches: %s', async (kind) => {
    const rollout = await branchedRollout({ kind });
    const served = servedRollout(rollout, options(kind));
    expect(parseWire(ServedRolloutSchema, JSON.stringify(served))).toEqual({ value: served });
    const { branches: further, ...first } = served;
    expect(first).toEqual({ ...servedRollout({ ...rollout, branches: rollout.branches.slice(0, 1) }, options(kind)) });
    expect(further!.map(({ parent, fork }) => [parent, fork!.kind])).toEqual([
      [0, 'history'],
      [1, 'sample'],
      [null, 'retry'],
      [null, 'system'],
      [null, 'side'],
    ]);
    const all = [served, ...further!];
    expect(all.map(({ messages }) => messages!.length)).toEqual([5, 8, 8, 3, 3, 2]);
    if (kind === 'chat') return;
    expect(all.map(({ token_ids: ids }) => ids)).toEqual(rollout.branches.map(({ tokens }) => [...tokens!.ids]));
    expect(all.map(({ loss_mask: mask }) => mask)).toEqual(rollout.branches.map(({ tokens }) => [...tokens!.mask]));
  });

  it('has the images of its tokens', async () => {
    const rollout = await branchedRollout();
    const tokens = new TokenBuffer();
    const image = { sha256: 'a'.repeat(64), mediaType: 'image/png', width: 28, height: 28, offset: 1, length: 2 } as const;
    tokens.appendGiven('prompt', Int32Array.of(1, 2, 2, 3), [image]);
    const served = servedRollout({ ...rollout, branches: [{ ...rollout.branches[0]!, tokens }] }, options('tokens'));
    expect(served).toMatchObject({ images: [{ offset: 1, length: 2 }] });
    expect(parseWire(ServedRolloutSchema, JSON.stringify(served))).toEqual({ value: served });
  });

  it('has what an environment says of single branches', async () => {
    const rollout = await branchedRollout();
    const branches = rollout.branches.map((branch, i) => ({ ...branch, role: i === 0 ? 'writer' : 'checker', reward: i / 4 }));
    const served = servedRollout({ ...rollout, branches }, options('tokens'));
    expect(served).toMatchObject({ reward: 1, branch_reward: 0, role: 'writer' });
    expect(served.branches!.map(({ role, reward }) => [role, reward])).toEqual([1, 2, 3, 4, 5].map((i) => ['checker', i / 4]));
  });

  it('has the prompt of an agent that failed before the policy answered', async () => {
    const rollout = await branchedRollout({ kind: 'chat' });
    const served = servedRollout({ ...rollout, branches: [], segments: [], generations: [] }, options('chat'));
    expect(served.messages).toHaveLength(2);
    expect('branches' in served).toBe(false);
  });
});
