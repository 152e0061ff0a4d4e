/** Recorded from scripts/vllm-cpu/serve.sh over the model of scripts/random-vlm/make.py qwen3_vl (scripts/vllm-cpu/record.ts). */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { probePolicy } from '../../src/clients/vllm-probe.ts';
import { policyClientContract } from '../contracts/policy-client.ts';
import { openVlm, rulesOf, vlmPictures, vlmTraits } from '../images/vlm-client.ts';
import { type ReplayServer, replayServer } from '../loopback/replay-server.ts';

const FORM = 'qwen3_vl';
const pictures = await vlmPictures(FORM);
const { signal } = new AbortController();

describe('recorded pictures', () => {
  let server: ReplayServer;
  beforeAll(async () => {
    server = await replayServer(join(import.meta.dirname, '../golden/vllm/images.json'), { model: `scripts/random-vlm/make.py ${FORM}` });
  });
  afterAll(() => server?.[Symbol.asyncDispose]());

  it('are probed: the route, the unit, the bounds, the limit, the ids', async () => {
    const probe = await probePolicy({ baseUrl: server.url, model: FORM, signal, images: true });
    expect(probe).toMatchObject({ kind: 'tokens', images: true, blindBecause: null, imageTokens: rulesOf(FORM) });
  });

  policyClientContract('recorded vLLM 0.32 with pictures', async () => openVlm(server.url, FORM, pictures), vlmTraits(FORM, pictures));
});
