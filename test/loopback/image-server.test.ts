import { afterAll, describe, expect, it } from 'vitest';
import { imageServerContract } from '../contracts/image-server.ts';
import { policyClientContract } from '../contracts/policy-client.ts';
import { openVlm, VLM_FORMS, vlmPictures, vlmTraits } from '../images/vlm-client.ts';
import { type ImageServer, imageServer } from './image-server.ts';

for (const form of VLM_FORMS) {
  const pictures = await vlmPictures(form);
  let started: Promise<ImageServer> | undefined;
  afterAll(async () => (await started)?.[Symbol.asyncDispose]());
  const url = async () => `${(await (started ??= imageServer({ form }))).url}/v1`;
  imageServerContract(`imitated vLLM of the form ${form}`, form, url);
  policyClientContract(`imitated vLLM of the form ${form}`, async () => openVlm(await url(), form, pictures), vlmTraits(form, pictures));
}

describe('imageServer', () => {
  it('has no route for pictures without --enable-scale-out', async () => {
    await using server = await imageServer({ hasRoute: false });
    expect((await fetch(`${server.url}/inference/v1/generate`, { method: 'POST', body: '{}' })).status).toBe(404);
  });
});
