/** Conversations with images by token ids, over a loopback imitation of vLLM: what is in the buffer, what is recorded, what ends an episode. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PolicyClient } from '../../src/clients/policy-client.ts';
import { ScriptedClient } from '../../src/clients/scripted.ts';
import type { MultiTurnEnv } from '../../src/core/multi-turn.ts';
import { Random } from '../../src/core/random.ts';
import { RunImages } from '../../src/files/run-images.ts';
import { playEpisode } from '../../src/rollouts/play.ts';
import type { Played } from '../../src/rollouts/rollout.ts';
import { bufferColumns } from '../../src/rollouts/rollout-columns.ts';
import { exportProblem, type RolloutExport } from '../../src/schemas/rollout-export.ts';
import { loadEnvironment } from '../images/gallery.ts';
import { openVlm, rulesOf } from '../images/vlm-client.ts';
import { type ImageServer, imageServer } from '../loopback/image-server.ts';

const FORM = 'qwen2_5_vl';
const { start, pad, end } = rulesOf(FORM);
const { signal } = new AbortController();

describe('a conversation with images', () => {
  let server: ImageServer;
  beforeAll(async () => {
    server = await imageServer({ form: FORM });
  });
  afterAll(() => server[Symbol.asyncDispose]());

  const play = async (args: Parameters<typeof loadEnvironment>[0], extra: Record<string, unknown> = {}): Promise<Played> => {
    const store = new RunImages();
    const environment = await loadEnvironment(args, { images: store });
    await using opened = await openVlm(server.url, FORM, { store });
    return await played(environment, opened.client, extra);
  };

  it('holds every image as its tokens with mask 0, between those that open and close it, and names it', async () => {
    const { branches, stop, error } = await play({ turns: 3 });
    expect([stop, error]).toEqual(['max_turns_reached', null]);
    const { ids, mask, images } = branches[0]!.tokens!;
    // 128 × 96, 101 × 77 and 64 × 192 pixels in squares of 28.
    expect(images.map(({ width, height, length }) => [width, height, length])).toEqual([
      [128, 96, 15],
      [101, 77, 12],
      [64, 192, 14],
    ]);
    for (const { offset, length } of images) {
      expect([ids[offset - 1], ids[offset + length]]).toEqual([start, end]);
      expect(ids.subarray(offset, offset + length).every((id) => id === pad)).toBe(true);
      expect(mask.subarray(offset, offset + length).every((bit) => bit === 0)).toBe(true);
    }
    expect(ids.filter((id) => id === pad)).toHaveLength(41);
  });

  it('keeps one mark for each image in the text of segments, and the image in the messages', async () => {
    const { segments, prompt } = await play({ turns: 2 });
    expect(segments.filter(({ kind }) => kind === 'observation').map(({ text }) => text)).toEqual([
      'Look: <image> And now?',
      'Look: <image> And now?',
    ]);
    expect(segments[1]!.messages![0]!.content).toContainEqual({ type: 'image', image: expect.objectContaining({ width: 101, height: 77 }) });
    expect(prompt[0]!.content).toContainEqual({ type: 'image', image: expect.objectContaining({ width: 128, height: 96 }) });
  });

  it('is recorded with its images, in an export that agrees with itself', async () => {
    const { branches } = await play({ turns: 3 });
    const columns = bufferColumns(branches[0]!.tokens!);
    expect(columns.images).toHaveLength(3);
    expect(Object.keys(columns.images![0]!)).toEqual(['sha256', 'media_type', 'width', 'height', 'offset', 'length']);
    expect(exportProblem(columns as unknown as RolloutExport)).toBeNull();
  });

  it('says in an export that an image is where the policy wrote', async () => {
    const columns = bufferColumns((await play({ turns: 3 })).branches[0]!.tokens!);
    const sampled = columns.loss_mask.indexOf(1);
    const moved = columns.images!.map((image, i) => (i === 1 ? { ...image, offset: sampled } : image));
    expect(exportProblem({ ...columns, images: moved } as unknown as RolloutExport)).toMatch(/^images\[1\] is not in the tokens/);
    const beyond = columns.images!.map((image) => ({ ...image, offset: columns.token_ids.length - 1 }));
    expect(exportProblem({ ...columns, images: beyond } as unknown as RolloutExport)).toMatch(/^images\[0\]/);
  });

  it.each([
    ['opens', start],
    ['fills', pad],
    ['closes', end],
  ])('ends where the policy samples the token that %s an image, keeps it with mask 1, and asks the environment no more', async (_, id) => {
    const { branches, stop, error, turns, segments } = await play({ turns: 3 }, { allowed_token_ids: [id] });
    expect([stop, error, turns]).toEqual(['vision_token_sampled', null, 1]);
    expect(segments.map(({ kind }) => kind)).toEqual(['model']);
    const { ids, mask, images } = branches[0]!.tokens!;
    expect([ids.at(-1), mask.at(-1)]).toEqual([id, 1]);
    expect(images).toHaveLength(1);
  });

  it('ends so too before the first image, because a later one would be misplaced', async () => {
    const { stop } = await play({ turns: 3, plainQuestion: true }, { allowed_token_ids: [start] });
    expect(stop).toBe('vision_token_sampled');
  });

  it('fails in one clear line where the policy reads text only', async () => {
    const store = new RunImages();
    const environment = await loadEnvironment({}, { images: store });
    const { error } = await played(environment, new ScriptedClient({ turns: ['hello'] }), {});
    expect(error).toMatchObject({
      type: 'EnvironmentError',
      endsRun: true,
      message: expect.stringMatching(/shows an image, but the policy reads text only/),
    });
  });
});

async function played(environment: MultiTurnEnv, client: PolicyClient, extra: Record<string, unknown>): Promise<Played> {
  await using lease = await client.lease(signal);
  const { capabilities } = client;
  const sampling = { temperature: 1, topP: 1, extra };
  const row = environment.eval.at(0);
  return await playEpisode({ environment, row, lease, capabilities, sampling, maxTokens: 6, random: Random.fromSeed(0), signal });
}
