import { expect, it } from 'vitest';
import { openRoles, type RolePolicy } from '../../../src/sessions/roles/open-roles.ts';
import type { ResolvedRole } from '../../../src/sessions/roles/resolve-roles.ts';
import { chatServer } from '../../models/chat-server.ts';

const { signal } = new AbortController();
const judgeAt = (url: string): ResolvedRole => ({
  role: 'judge',
  about: 'scores',
  player: { kind: 'endpoint', baseUrls: [`${url}/v1`], model: null, apiKey: null, keyVariable: null, headers: {}, alias: null },
  isDefault: false,
  table: {},
  asked: null,
});

it('shows the images of an environment to the server of a role', async () => {
  await using server = await chatServer(() => 'yes');
  const image = { sha256: 'a', mediaType: 'image/png', width: 1, height: 1 };
  const images = { put: async () => image, get: async () => Uint8Array.of(1, 2, 3) };
  await using roles = await openRoles([judgeAt(server.url)], { policy: {} as RolePolicy, images, secrets: new Set(), onNotice: () => {}, signal });
  await roles.models.models['judge']!.generate([{ role: 'user', content: [{ type: 'image', image }] }], { maxTokens: 8, signal });
  expect(server.bodies[0]!.messages).toEqual([{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AQID' } }] }]);
});

it('with strict stops, a role whose server does not say what ended its text ends the run', async () => {
  await using server = await chatServer(() => '<verdict> yes');
  const asked = async (strictStops: boolean) => {
    await using roles = await openRoles([judgeAt(server.url)], {
      policy: {} as RolePolicy,
      secrets: new Set(),
      onNotice: () => {},
      strictStops,
      signal,
    });
    const reply = roles.models.models['judge']!.generate([{ role: 'user', content: 'So?' }], { maxTokens: 8, stop: ['</verdict>'], signal });
    return await reply.then(
      ({ text }) => text,
      (error: unknown) => error,
    );
  };
  expect(await asked(false)).toBe('<verdict> yes</verdict>');
  expect(await asked(true)).toMatchObject({ endsRun: true, message: expect.stringContaining('strict stops') });
});
