import { expect, it } from 'vitest';
import { openRoles, type RolePolicy } from '../../../src/sessions/roles/open-roles.ts';
import type { ResolvedRole } from '../../../src/sessions/roles/resolve-roles.ts';
import { chatServer } from '../../models/chat-server.ts';

it('shows the images of an environment to the server of a role', async () => {
  await using server = await chatServer(() => 'yes');
  const image = { sha256: 'a', mediaType: 'image/png', width: 1, height: 1 };
  const player = {
    kind: 'endpoint',
    baseUrls: [`${server.url}/v1`],
    model: null,
    apiKey: null,
    keyVariable: null,
    headers: {},
    alias: null,
  } as const;
  const judge: ResolvedRole = { role: 'judge', about: 'scores', player, isDefault: false, table: {}, asked: null };
  const { signal } = new AbortController();
  const images = { put: async () => image, get: async () => Uint8Array.of(1, 2, 3) };
  await using roles = await openRoles([judge], { policy: {} as RolePolicy, images, secrets: new Set(), onNotice: () => {}, signal });
  await roles.models.models['judge']!.generate([{ role: 'user', content: [{ type: 'image', image }] }], { maxTokens: 8, signal });
  expect(server.bodies[0]!.messages).toEqual([{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AQID' } }] }]);
});
