import { describe, expect, it } from 'vitest';
import { modelPath } from '../../src/data/bundled-models.ts';
import { checkTinker } from '../../src/doctor/check-tinker.ts';
import { resolveTrainingConfig } from '../../src/trainer/config/resolve-config.ts';
import { serveNano } from '../server/tinker/tinker-caller.ts';

const { signal } = new AbortController();
const configOf = (backend: object) =>
  resolveTrainingConfig([
    {
      source: '--set',
      table: { environment: { id: 'search-r1' }, model: { path: modelPath('nano-base') }, backend: { kind: 'tinker', ...backend } },
    },
  ]).config;

describe('checkTinker', () => {
  it('finds a service that samples the base, one without it, and one that wants a key', { timeout: 60_000 }, async () => {
    const { server, engine } = await serveNano({ apiKey: 'tml-right' });
    const check = (backend: object, key: string) =>
      checkTinker(configOf({ base_url: server.url, ...backend }), { variables: { TINKER_API_KEY: key }, signal });
    expect(await check({ model: 'nano-base' }, 'tml-right')).toEqual({
      name: 'tinker',
      state: 'ok',
      text: `${server.url} samples nano-base, and returns log-probs of prompts`,
    });
    expect(await check({ model: 'another' }, 'tml-right')).toMatchObject({ state: 'missing', text: expect.stringContaining('another') });
    const refused = await check({ model: 'nano-base' }, 'tml-wrong');
    expect(refused).toMatchObject({ state: 'missing', text: expect.stringContaining('TINKER_API_KEY') });
    expect(refused.text).not.toContain('tml-wrong');
    await server.close({ graceMs: 0 });
    await engine.close();
    expect(await checkTinker(configOf({ model: 'nano-base' }), { variables: {}, signal })).toMatchObject({
      state: 'missing',
      text: expect.stringContaining('holds no API key'),
    });
  });
});
