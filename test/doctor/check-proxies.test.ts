import { describe, expect, it } from 'vitest';
import { checkProxies } from '../../src/doctor/check-proxies.ts';

describe('checkProxies', () => {
  it('says which proxy is used for what, without its password', () => {
    const [finding] = checkProxies({ HTTPS_PROXY: 'http://me:secret@proxy.test:3128', NO_PROXY: '.cluster' });
    expect(finding).toEqual({
      name: 'proxy',
      state: 'ok',
      text: 'https goes through http://proxy.test:3128 of HTTPS_PROXY; straight to loopback and to .cluster',
    });
  });

  it('says nothing without a proxy', () => expect(checkProxies({ NO_PROXY: 'a' })).toEqual([]));

  it('a variable that cannot be used is missing', () => {
    expect(checkProxies({ HTTP_PROXY: 'socks5://proxy.test' })).toMatchObject([
      { state: 'missing', text: expect.stringMatching(/^HTTP_PROXY must be/) },
    ]);
  });
});
