import { describe, expect, it } from 'vitest';
import { importMemory } from '../../src/execution/wasi/memory-import.ts';

// (module (import "env" "log" (func (param i32))) (memory 1) (func (export "grow") (param i32) (result i32) local.get 0 memory.grow))
const BINARY = Uint8Array.from(
  Buffer.from('0061736d01000000010a0260017f0060017f017f020b0103656e76036c6f6700000302010105030100010708010467726f7700010a08010600200040000b', 'hex'),
);

describe('importMemory', () => {
  it('leaves it to each instance how far its memory grows', async () => {
    const { binary, initialPages } = importMemory(BINARY);
    expect(initialPages).toBe(1);
    const module = await WebAssembly.compile(binary);
    const results = [2, 4].map((maximum) => {
      const memory = new WebAssembly.Memory({ initial: 1, maximum });
      const instance = new WebAssembly.Instance(module, { env: { log: () => {} }, host: { memory } });
      const grow = instance.exports['grow'] as (pages: number) => number;
      return [grow(1), grow(1), grow(1), memory.buffer.byteLength / 2 ** 16];
    });
    expect(results).toEqual([
      [1, -1, -1, 2],
      [1, 2, 3, 4],
    ]);
  });

  it('refuses binaries of another form', () => {
    expect(() => importMemory(Uint8Array.from([0, 0x61, 0x73, 0x6d, 1, 0, 0, 0]))).toThrow('defines no memory');
    expect(() => importMemory(BINARY.subarray(0, 25))).toThrow(/^The binary/);
  });
});
