import { describe, expect, it } from 'vitest';
import { PrefixTree } from '../../../src/engine/sampler/prefix-tree.ts';

describe('PrefixTree', () => {
  it('takes an adapter out whatever the number of prefixes that begin with it', () => {
    const tree = new PrefixTree();
    const root = tree.root(1, null);
    const tokens = new Int32Array(16);
    const count = 200_000;
    for (let block = 0; block < count; block++) {
      tokens[0] = block;
      tree.list(root, tokens, 0, block);
    }
    let removed = 0;
    tree.removeAdapter(1, () => removed++);
    expect(removed).toBe(count);
    expect(tree.find(1, null, tokens, 1)).toEqual([]);
  });
});
