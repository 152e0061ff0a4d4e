import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockPool, type PrefixScope } from '../../../src/engine/sampler/block-pool.ts';
import { BlockTable } from '../../../src/engine/sampler/block-table.ts';

const base: PrefixScope = { adapter: 0, salt: null };
const sequence = (length: number, first = 0): Int32Array => Int32Array.from({ length }, (_, i) => (first + i) % 200_000);

/** A table whose blocks hold the tokens, all of them computed. */
function filled(pool: BlockPool, tokens: Int32Array, scope = base): BlockTable {
  const table = new BlockTable(pool, scope);
  table.adopt(pool.find(scope, tokens, Math.floor(tokens.length / 16)));
  if (!table.reserve(tokens.length)) throw new Error('expected room');
  table.list(tokens, tokens.length);
  return table;
}

describe('BlockPool', () => {
  it('finds the full blocks of a prefix, and only those', () => {
    const pool = new BlockPool(16);
    const tokens = sequence(50);
    const table = filled(pool, tokens);
    const found = pool.find(base, tokens, 99).map(({ block }) => block);
    expect(found).toEqual([...table.view(50)].slice(0, 3));
    const other = tokens.with(20, 7);
    expect(pool.find(base, other, 99)).toHaveLength(1);
    expect(pool.find(base, tokens, 2)).toHaveLength(2);
    expect(pool.find(base, tokens.with(0, 1), 99)).toHaveLength(0);
  });

  it('finds what one request has added to the prefix of another', () => {
    const pool = new BlockPool(16);
    filled(pool, sequence(40)).release();
    const table = filled(pool, sequence(90));
    expect(pool.find(base, sequence(90), 99).map(({ block }) => block)).toEqual([...table.view(90)].slice(0, 5));
    expect(pool.find(base, sequence(16, 32), 99)).toHaveLength(0);
  });

  it('distinguishes ids that agree in their lower 16 bits', () => {
    const pool = new BlockPool(4);
    filled(pool, sequence(16));
    expect(pool.find(base, sequence(16).with(3, 3 + 65536), 1)).toHaveLength(0);
  });

  it('keeps the blocks of a request that ended until others need them, the longest unused first, tails before heads', () => {
    const pool = new BlockPool(4);
    const [first, second] = [sequence(32), sequence(32, 1000)];
    for (const tokens of [first, second]) filled(pool, tokens).release();
    expect(pool.used).toBe(0);
    expect(pool.available).toBe(4);
    // The first is used once more, so the second is now the older one.
    filled(pool, first).release();
    const held = [pool.take()];
    expect(pool.find(base, second, 2)).toHaveLength(1);
    held.push(pool.take());
    expect(pool.find(base, second, 2)).toHaveLength(0);
    expect(pool.find(base, first, 2)).toHaveLength(2);
    held.push(pool.take(), pool.take());
    expect(new Set(held).size).toBe(4);
    expect(pool.take()).toBe(-1);
  });

  it('counts the holders of a shared block', () => {
    const pool = new BlockPool(8);
    const tokens = sequence(40);
    const tables = [filled(pool, tokens), filled(pool, tokens), filled(pool, tokens)];
    const block = tables[0]!.view(40)[0]!;
    expect(pool.holders(block)).toBe(3);
    // Two shared blocks and an end of each one's own.
    expect(pool.used).toBe(5);
    for (const table of tables) table.release();
    expect(pool.holders(block)).toBe(0);
    expect(() => pool.release(block)).toThrow(RangeError);
  });

  it('lists no block below one that is forgotten', () => {
    const pool = new BlockPool(8);
    const tokens = sequence(64);
    const table = new BlockTable(pool, base);
    table.reserve(64);
    table.list(tokens, 32);
    pool.forget(table.view(64)[0]!);
    table.list(tokens, 64);
    expect(table.isListing).toBe(false);
    expect(pool.find(base, tokens, 4)).toHaveLength(0);
    table.release();
    expect(pool.available).toBe(8);
    table.adopt([]);
    table.reserve(64);
    table.list(tokens, 64);
    expect(pool.find(base, tokens, 4)).toHaveLength(4);
  });

  it('holds each block once in one place, whatever happens {free + idle + held = all}', () => {
    const scopes: readonly PrefixScope[] = [base, { adapter: 1, salt: null }, { adapter: 1, salt: 'a' }];
    const move = fc.oneof(
      {
        weight: 4,
        arbitrary: fc.record({ kind: fc.constant('open' as const), family: fc.nat(2), length: fc.integer({ min: 1, max: 70 }), scope: fc.nat(2) }),
      },
      { weight: 3, arbitrary: fc.record({ kind: fc.constant('close' as const), which: fc.nat(9) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('forget' as const), which: fc.nat(9) }) },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant('adapter' as const), adapter: fc.nat(1) }) },
    );
    fc.assert(
      fc.property(fc.array(move, { maxLength: 60 }), (moves) => {
        const pool = new BlockPool(12);
        const open: { readonly table: BlockTable; readonly count: number }[] = [];
        for (const each of moves) {
          if (each.kind === 'open') {
            const table = new BlockTable(pool, scopes[each.scope]!);
            const tokens = sequence(each.length, each.family * 1000);
            table.adopt(pool.find(scopes[each.scope]!, tokens, Math.floor(each.length / 16)));
            if (table.reserve(each.length)) {
              table.list(tokens, each.length);
              open.push({ table, count: each.length });
            } else table.release();
          } else if (each.kind === 'close') open.splice(each.which, 1)[0]?.table.release();
          else if (each.kind === 'forget') open[each.which]?.table.forget();
          else pool.forgetAdapter(each.adapter);
          const holders = new Int32Array(12);
          for (const { table, count } of open) for (const block of table.view(count)) holders[block]!++;
          expect(Array.from({ length: 12 }, (_, block) => pool.holders(block))).toEqual([...holders]);
          expect(pool.used).toBe(holders.filter((count) => count > 0).length);
        }
        for (const { table } of open) table.release();
        const taken = new Set(Array.from({ length: 12 }, () => pool.take()));
        expect(taken.size).toBe(12);
        expect(taken.has(-1)).toBe(false);
        for (const scope of scopes) for (const family of [0, 1, 2]) expect(pool.find(scope, sequence(16, family * 1000), 1)).toEqual([]);
      }),
      { numRuns: 200 },
    );
  });
});
