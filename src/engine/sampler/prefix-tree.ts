/**
 * Which block of the cache holds which prefix: a tree of full blocks per adapter and salt. A block's own tokens are the key below its parent, whole and in order, so that
 * nothing rests on a hash being unique.
 */
import { BLOCK_TOKENS } from '../kernels/kernels.ts';

export interface PrefixNode {
  /** -1 for a root. */
  readonly block: number;
  readonly parent: PrefixNode | null;
  /** Its tokens; of a root the salt. */
  readonly key: string | null;
  /** The adapter's number. */
  readonly adapter: number;
  readonly children: Map<string, PrefixNode>;
  /** False once it is out of the tree; nothing can be hung below it then. */
  isListed: boolean;
}

/** The tokens of a block as text, two units each. */
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

  /** Where the prefixes of an adapter and salt begin; made if need be. */
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

  /** The listed blocks that hold the first `limit` blocks of the tokens, as far as there are any. */
  find(adapter: number, salt: string | null, tokens: Int32Array, limit: number): PrefixNode[] {
    const found: PrefixNode[] = [];
    let node = this.#roots.get(adapter)?.get(salt);
    for (let block = 0; node !== undefined && block < limit; block++) {
      node = node.children.get(keyOf(tokens, block));
      if (node !== undefined) found.push(node);
    }
    return found;
  }

  /** Lists the block that holds block `index` of the tokens. Where another one holds the same already, that one is returned; null where the parent is listed no longer. */
  list(parent: PrefixNode, tokens: Int32Array, index: number, block: number): PrefixNode | null {
    if (!parent.isListed) return null;
    const key = keyOf(tokens, index);
    const known = parent.children.get(key);
    if (known !== undefined) return known;
    const node: PrefixNode = { block, parent, key, adapter: parent.adapter, children: new Map(), isListed: true };
    parent.children.set(key, node);
    return node;
  }

  /** Takes a node and all below it out; `removed` gets each block. A root without children goes as well. */
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
    // A chain is as deep as the window is long: no recursion.
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
