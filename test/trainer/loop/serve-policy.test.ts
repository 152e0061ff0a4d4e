import { describe, expect, it } from 'vitest';
import type { PlacedImage } from '../../../src/core/message.ts';
import { servePolicy, servePolicyAtStart, type Serving } from '../../../src/trainer/loop/serve-policy.ts';
import type { ProbeTexts } from '../../../src/trainer/publisher/served-policy.ts';
import type { Trajectory } from '../../../src/trainer/trajectory.ts';
import { branched } from '../branched-trajectory.ts';

/** What a version is published with after a step on these trajectories. */
function probedWith(batch: readonly Partial<Trajectory>[]): Promise<ProbeTexts> {
  return published((parts) => servePolicy(parts, batch as readonly Trajectory[]));
}

async function published(
  serve: (parts: Serving) => Promise<unknown>,
  needs: readonly string[] = [],
  { maxModelLen = null, maxTokens = Infinity }: { readonly maxModelLen?: number | null; readonly maxTokens?: number } = {},
): Promise<ProbeTexts> {
  const given: ProbeTexts[] = [];
  const prompt = Int32Array.of(1, 2, 3);
  const lease = { kind: 'tokens', render: async () => ({ ids: prompt, images: [] }), [Symbol.asyncDispose]: async () => {} };
  const parts = {
    policy: { version: 0, publish: async (_: number, texts: ProbeTexts) => (given.push(texts), { ok: true }) },
    progress: { version: 1, step: 1 },
    run: { config: { steps: 1, sft: { epochs: 0, data: null } }, environment: { needs, train: { at: () => ({ prompt: [] }) } } },
    session: {
      backend: { capabilities: { maxTokens } },
      client: { lease: async () => lease, capabilities: { maxModelLen } },
      versions: { current: () => ({ version: 0, model: 'm' }) },
    },
    records: { served: () => {} },
    evaluation: { needsPolicy: () => true },
    source: { needsPolicy: () => true },
    signal: new AbortController().signal,
  };
  await serve(parts as unknown as Serving);
  return given[0]!;
}

function trajectory(
  length: number,
  targets: readonly number[],
  places: readonly (readonly [offset: number, length: number])[] = [],
): Partial<Trajectory> {
  const image = { sha256: 'a'.repeat(64), mediaType: 'image/png', width: 32, height: 32 };
  const images: PlacedImage[] = places.map(([offset, tokens]) => ({ ...image, offset, length: tokens }));
  return { ids: Int32Array.from({ length }, (_, i) => i), targets: Int32Array.from(targets), ...(images.length === 0 ? {} : { images }) };
}

describe('servePolicy', () => {
  it('probes with the shortest trajectory that has targets, and with no second one where none shows images', async () => {
    const probed = await probedWith([trajectory(9, [8]), trajectory(5, [3, 4]), trajectory(3, [])]);
    expect(probed).toEqual({ text: trajectory(5, [3, 4]) });
  });

  it('probes with a branch of a rollout that has several, in its own context', async () => {
    const branches = branched('a/0', [{ sampled: [-1, -1] }, { sampled: [-1], prompt: 1 }]);
    expect(await probedWith([trajectory(9, [8]), branches])).toEqual({ text: { ids: Int32Array.of(6, 7, 8), targets: Int32Array.of(1) } });
  });

  it('probes with the shortest that shows an image before a target as well', async () => {
    const late = trajectory(6, [1], [[2, 2]]);
    const shown = trajectory(20, [2, 9, 12], [[4, 3]]);
    const probed = await probedWith([shown, trajectory(30, [8]), late, trajectory(25, [9], [[4, 3]])]);
    expect(probed.text).toEqual(trajectory(30, [8]));
    expect(probed.pictured).toEqual({ ...shown, targets: Int32Array.of(9, 12) });
  });

  it('takes what comes before the first image where every trajectory shows some, or else the first prompt', async () => {
    const probed = await probedWith([trajectory(20, [2, 9], [[4, 3]])]);
    expect(probed.text).toEqual({ ids: Int32Array.of(0, 1, 2, 3), targets: Int32Array.of(2) });
    expect(probed.pictured!.targets).toEqual(Int32Array.of(9));
    const begun = await probedWith([trajectory(20, [9], [[4, 3]])]);
    expect(begun.text).toEqual({ ids: Int32Array.of(1, 2, 3), targets: Int32Array.of(1, 2) });
  });
});

describe('servePolicyAtStart', () => {
  const recorded = async () => [trajectory(9, [8]), trajectory(20, [2, 9], [[4, 3]])] as readonly Trajectory[];

  it.each([{ maxModelLen: 3 }, { maxTokens: 3 }])('probes with as much of a prompt as leaves room for a token: %j', async (window) => {
    const beginning = { ids: Int32Array.of(1, 2), targets: Int32Array.of(1) };
    expect(await published((parts) => servePolicyAtStart(parts, recorded), [], window)).toEqual({ text: beginning });
  });

  it('probes with the first prompt, and with a recorded rollout where the environment shows images', async () => {
    const prompt = { ids: Int32Array.of(1, 2, 3), targets: Int32Array.of(1, 2) };
    expect(await published((parts) => servePolicyAtStart(parts, recorded))).toEqual({ text: prompt });
    const probed = await published((parts) => servePolicyAtStart(parts, recorded), ['images']);
    expect(probed.pictured).toEqual({ ...trajectory(20, [9], [[4, 3]]) });
    expect(await published((parts) => servePolicyAtStart(parts, async () => []), ['images'])).toEqual({ text: prompt });
  });
});
