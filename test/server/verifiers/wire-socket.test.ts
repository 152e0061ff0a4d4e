import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../../src/core/errors.ts';
import { serveWire } from './wire-client.ts';

describe('WireSocket', () => {
  it.each([
    ['tcp://0.0.0.0:0', /open to the network, and this wire has no password\. .*--allow-network/],
    ['tcp://*:0', /open to the network/],
    ['tcp://127.0.0.1:65536', /is not an address\. Write tcp:\/\/HOST:PORT/],
    ['127.0.0.1:5000', /is not an address/],
    ['ipc:///tmp/x', /is not an address/],
    ['tcp://127.0.0.1', /is not an address/],
  ])('does not bind %s', async (address, message) => {
    await expect(serveWire({ address })).rejects.toThrow(message);
    await expect(serveWire({ address })).rejects.toBeInstanceOf(ConfigError);
  });

  it('binds the network where that is allowed, and names a port that is taken', async () => {
    await using open = await serveWire({ address: 'tcp://0.0.0.0:0', allowsNetwork: true });
    expect(open.address).toMatch(/^tcp:\/\/0\.0\.0\.0:\d+$/);
    await using served = await serveWire();
    await expect(serveWire({ address: served.address })).rejects.toThrow(
      /^The port of --bind tcp:\/\/127\.0\.0\.1:\d+ is in use\. Choose another one/,
    );
  });
});
