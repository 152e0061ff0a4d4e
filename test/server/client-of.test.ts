import { expect, test } from 'vitest';
import { clientOf, noteClient } from '../../src/server/client-of.ts';

test.each([
  ['127.0.0.1', '127.0.0.1'],
  ['::ffff:10.0.0.5', '10.0.0.5'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8:1:2::9', '2001:db8:1:2'],
  ['2001:db8::9', '2001:db8:0:0'],
  ['::1', ':0:0:0'],
  [undefined, ''],
])('a request from %s is of the client "%s"', (address, client) => {
  const request = new Request('http://127.0.0.1/');
  noteClient(request, address);
  expect(clientOf(request)).toBe(client);
});
