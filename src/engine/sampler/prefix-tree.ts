/**
 * Maps prefixes to cache blocks: a tree of full blocks per adapter and salt. The key of a block below its parent is its complete tokens, so that hash collisions
 * cannot occur.
 */
import { BLOCK_TOKENS } from '../kernels/kernels.ts';

export interface PrefixNode {
  /** -1 for a root. */
  readonly block: number;
  readonly parent: PrefixNode | null;
  /** The block's tokens; for a root the salt. */
  readonly key: string | null;
  /** Id of the adapter; 0 is the base model. */
  readonly adapter: number;
  readonly children: Map<string, PrefixNode>;
  /** False once it was removed from the tree; then it takes no children. */
  isListed: boolean;
}

/** The tokens of a block as UTF-16 units, two per token. */
const units = new Uint16Array(2 * BLOCK_TOKENS);

function keyOf(tokens: Int32Array, block: number): string {
  const from = block * BLOCK_TOKENS;
  for (let i = 0; i < BLOCK_TOKENS; i++) {
    const id = tokens[from + i]!;
    units[2 * i] = id & 0xffff;
    units[2 * i + 1] = id >>> 16;
  }
  return String.fromCharCode.apply(null, units as unknown as number[]);
}

export class PrefixTree {
  /** By adapter, then by salt. */
  readonly #roots = new Map<number, Map<string | null, PrefixNode>>();

  /** The root of an adapter and salt, created if missing. */
  root(adapter: number, salt: string | null): PrefixNode {
    let salts = this.#roots.get(adapter);
    if (salts === undefined) this.#roots.set(adapter, (salts = new Map()));
    let root = salts.get(salt);
    if (root === undefined) {
      root = { block: -1, parent: null, key: salt, adapter, children: new Map(), isListed: true };
      salts.set(salt, root);
    }
    return root;
  }

  /** The listed blocks that hold the start of the tokens, at most `limit`. */
  find(adapter: number, salt: string | null, tokens: Int32Array, limit: number): PrefixNode[] {
    const found: PrefixNode[] = [];
    let node = this.#roots.get(adapter)?.get(salt);
    for (let block = 0; node !== undefined && block < limit; block++) {
      node = node.children.get(keyOf(tokens, block));
      if (node !== undefined) found.push(node);
    }
    return found;
  }

  /** Lists `block` as block `index` of the tokens. Returns another block's node if that already holds the same, and null if the parent is no longer listed. */
  list(parent: PrefixNode, tokens: Int32Array, index: number, block: number): PrefixNode | null {
    if (!parent.isListed) return null;
    const key = keyOf(tokens, index);
    const known = parent.children.get(key);
    if (known !== undefined) return known;
    const node: PrefixNode = { block, parent, key, adapter: parent.adapter, children: new Map(), isListed: true };
    parent.children.set(key, node);
    return node;
  }

  /** Removes a node and everything below it, and a root that has no children left. Calls `removed` with each block. */
  remove(node: PrefixNode, removed: (block: number) => void): void {
    if (!node.isListed) return;
    this.#unlist(node, removed);
    const { parent } = node;
    if (parent === null) {
      this.#forgetRoot(node);
      return;
    }
    parent.children.delete(node.key!);
    if (parent.parent === null && parent.children.size === 0) this.#forgetRoot(parent);
  }

  removeAdapter(adapter: number, removed: (block: number) => void): void {
    for (const root of this.#roots.get(adapter)?.values() ?? []) this.remove(root, removed);
  }

  #unlist(top: PrefixNode, removed: (block: number) => void): void {
    // No recursion, because a chain can be as deep as the context is long.
    const open = [top];
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      node.isListed = false;
      if (node.block >= 0) removed(node.block);
      for (const child of node.children.values()) open.push(child);
    }
  }

  #forgetRoot(root: PrefixNode): void {
    root.isListed = false;
    const salts = this.#roots.get(root.adapter);
    if (salts?.get(root.key) !== root) return;
    salts.delete(root.key);
    if (salts.size === 0) this.#roots.delete(root.adapter);
  }
}
