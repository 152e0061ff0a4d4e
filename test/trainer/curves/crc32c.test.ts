import { describe, expect, it } from 'vitest';
import { crc32c } from '../../../src/trainer/curves/crc32c.ts';

describe('crc32c', () => {
  it.each([
    ['32 bytes of 0', Buffer.alloc(32), 0x8a9136aa],
    ['32 bytes of 255', Buffer.alloc(32, 0xff), 0x62a8ab43],
    ['0 to 31', Buffer.from(Array.from({ length: 32 }, (_, i) => i)), 0x46dd794e],
    ['31 to 0', Buffer.from(Array.from({ length: 32 }, (_, i) => 31 - i)), 0x113fdb5c],
    ['the check value "123456789"', Buffer.from('123456789'), 0xe3069283],
  ])('is that of RFC 3720, B.4: %s', (_, bytes, checksum) => {
    expect(crc32c(bytes)).toBe(checksum);
  });
});
