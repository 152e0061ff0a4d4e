import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PrefixMemory, prefixChain } from '../../../src/engine/threads/prefix-memory.ts';

const BASE = { adapter: 0, salt: null };
const tokens = (min: number, max: number) =>
  fc.array(fc.integer({ min: 0, max: 1596 }), { minLength: min, maxLength: max }).map((ids) => Int32Array.from(ids));

describe('prefixChain', () => {
  it('has one fingerprint for each full block, and shares those of a shared prefix', () => {
    fc.assert(
      fc.property(tokens(0, 100), tokens(0, 40), tokens(0, 40), (head, a, b) => {
        const chains = [a, b].map((tail) => prefixChain(BASE, Int32Array.from([...head, ...tail])));
        expect(chains[0]!.length).toBe(Math.floor((head.length + a.length) / 16));
        const shared = Math.floor(head.length / 16);
        expect(chains[0]!.subarray(0, shared)).toEqual(chains[1]!.subarray(0, shared));
        expect(chains[0]!.every(Number.isSafeInteger)).toBe(true);
      }),
    );
  });

  it('distinguishes tokens, adapters and salts, in all blocks from the first difference on', () => {
    fc.assert(
      fc.property(tokens(64, 64), fc.nat(63), (ids, place) => {
        const chain = prefixChain(BASE, ids);
        const other = prefixChain(BASE, ids.with(place, (ids[place]! + 1) % 1597));
        const first = Math.floor(place / 16);
        expect(other.subarray(0, first)).toEqual(chain.subarray(0, first));
        for (let i = first; i < 4; i++) expect(other[i]).not.toBe(chain[i]);
        for (const scope of [
          { adapter: 1, salt: null },
          { adapter: 0, salt: 'a' },
        ]) {
          for (const [i, block] of prefixChain(scope, ids).entries()) expect(block).not.toBe(chain[i]);
        }
      }),
    );
  });
});

describe('PrefixMemory', () => {
  const chainOf = (first: number, blocks: number) =>
    prefixChain(
      BASE,
      Int32Array.from({ length: blocks * 16 }, (_, i) => first + i),
    );

  it('knows a prefix by its leading blocks, up to the first that differs', () => {
    const memory = new PrefixMemory(100);
    const chain = chainOf(0, 6);
    memory.remember(chain);
    expect(memory.known(chain)).toBe(6);
    expect(memory.known(Float64Array.from([...chain.subarray(0, 4), 1, 2]))).toBe(4);
    expect(memory.known(chainOf(1, 6))).toBe(0);
  });

  it('keeps no more than it is allowed to, and forgets the tail of the oldest first', () => {
    const memory = new PrefixMemory(8);
    const [old, fresh] = [chainOf(0, 6), chainOf(1000, 4)];
    memory.remember(old);
    memory.remember(fresh);
    expect(memory.size).toBe(8);
    expect(memory.known(fresh)).toBe(4);
    expect(memory.known(old)).toBe(4);
  });

  it('keeps what is used again', () => {
    const memory = new PrefixMemory(8);
    const [used, other] = [chainOf(0, 4), chainOf(1000, 4)];
    memory.remember(used);
    memory.remember(other);
    memory.remember(used);
    memory.remember(chainOf(2000, 4));
    expect(memory.known(used)).toBe(4);
    expect(memory.known(other)).toBe(0);
  });
});
