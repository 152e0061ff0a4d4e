/** Pictures for tests: every seed paints another one. */
import { crc32, deflateSync } from 'node:zlib';

/** A PNG of 24 bits a pixel: a ground and ten rectangles whose colours and places follow from the seed. */
export function paintedPng(width: number, height: number, seed: number): Buffer {
  const random = generator(seed);
  const pixels = Buffer.alloc(height * (1 + 3 * width));
  const paint = (left: number, top: number, right: number, bottom: number) => {
    const colour = [random(256), random(256), random(256)];
    for (let y = top; y < bottom; y++) for (let x = left; x < right; x++) pixels.set(colour, y * (1 + 3 * width) + 1 + 3 * x);
  };
  paint(0, 0, width, height);
  for (let i = 0; i < 10; i++) {
    const [left, top] = [random(width), random(height)];
    paint(left, top, Math.min(width, left + 1 + random(40)), Math.min(height, top + 1 + random(30)));
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  // Eight bits a channel, red, green and blue.
  header.set([8, 2], 8);
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(pixels)),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

/** Mulberry32. */
function generator(seed: number): (below: number) => number {
  let state = (seed + 1) * 0x9e3779b9;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, sum]);
}
