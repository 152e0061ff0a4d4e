/** Finds the exports of a module, and the place of their declarations, from the sources. Follows relative imports and the package's own name. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Comment, parseSync } from 'oxc-parser';

/** The parts of a syntax tree's node that reports read. */
export interface SyntaxNode {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [key: string]: unknown;
}

interface Module {
  readonly path: string;
  readonly text: string;
  readonly comments: readonly Comment[];
  /** The declarations of a name: one, or the overloads of a function. A docstring is before `outer`. */
  readonly declared: ReadonlyMap<string, readonly { readonly node: SyntaxNode; readonly outer: SyntaxNode }[]>;
  /** Names from other modules: the module, and their names there. */
  readonly imported: ReadonlyMap<string, { readonly path: string; readonly name: string }>;
  /** Exported name → name in this module. */
  readonly exported: ReadonlyMap<string, string>;
  /** Modules of which everything is exported. */
  readonly stars: readonly string[];
}

/** A public name's declarations in the module that has them. */
export interface Declaration {
  readonly module: Module;
  readonly name: string;
  readonly nodes: readonly { readonly node: SyntaxNode; readonly outer: SyntaxNode }[];
}

export class Declarations {
  readonly #modules = new Map<string, Module>();
  readonly #entries: ReadonlyMap<string, string>;

  /** `entries`: the package's names for its modules, such as `vf-search/trainer`, and their paths. */
  constructor(entries: ReadonlyMap<string, string>) {
    this.#entries = entries;
  }

  /** Public name → declaration. Throws if a name comes from a package. */
  exportsOf(path: string): ReadonlyMap<string, Declaration> {
    const module = this.#module(path);
    const own = [...module.exported].map(([name, local]) => [name, this.#found(path, local, name)] as const);
    return new Map([...module.stars.flatMap((star) => [...this.exportsOf(star)]), ...own]);
  }

  /** The declaration that a name refers to in a module; null if it is a global, a type parameter or from a package. */
  find(path: string, name: string): Declaration | null {
    const module = this.#module(path);
    const nodes = module.declared.get(name);
    if (nodes !== undefined) return { module, name, nodes };
    const imported = module.imported.get(name);
    return imported === undefined ? null : (this.exportsOf(imported.path).get(imported.name) ?? null);
  }

  #found(path: string, local: string, name: string): Declaration {
    const found = this.find(path, local);
    if (found === null) throw new Error(`${path} exports ${name}, whose declaration was not found.`);
    return found;
  }

  #module(path: string): Module {
    const known = this.#modules.get(path);
    if (known !== undefined) return known;
    const module = readModule(path, this.#entries);
    this.#modules.set(path, module);
    return module;
  }
}

function readModule(path: string, entries: ReadonlyMap<string, string>): Module {
  const text = readFileSync(path, 'utf8');
  const { program, comments } = parseSync(path, text);
  const declared = new Map<string, { node: SyntaxNode; outer: SyntaxNode }[]>();
  const imported = new Map<string, { path: string; name: string }>();
  const exported = new Map<string, string>();
  const stars: string[] = [];
  const target = (source: { readonly value: string } | null | undefined) =>
    source?.value.startsWith('.') ? join(dirname(path), source.value) : entries.get(source?.value ?? '');
  for (const outer of program.body as unknown as readonly SyntaxNode[]) {
    const node = (outer['declaration'] ?? outer) as SyntaxNode;
    for (const name of declaredNames(node)) {
      declared.set(name, [...(declared.get(name) ?? []), { node, outer }]);
      if (outer.type === 'ExportNamedDeclaration') exported.set(name, name);
    }
    const source = outer['source'] as { value: string } | null | undefined;
    const from = target(source);
    if (outer.type === 'ExportAllDeclaration' && from !== undefined) stars.push(from);
    const specifiers = (outer['specifiers'] ?? []) as readonly SyntaxNode[];
    for (const specifier of specifiers) {
      const [local, there, out] = ['local', 'imported', 'exported'].map((key) => (specifier[key] as { name: string } | undefined)?.name);
      if (outer.type === 'ImportDeclaration' && there !== undefined && from !== undefined) imported.set(local!, { path: from, name: there });
      if (outer.type !== 'ExportNamedDeclaration') continue;
      const key = source ? `export ${out!}` : local!;
      if (from !== undefined) imported.set(key, { path: from, name: local! });
      exported.set(out!, key);
    }
  }
  return { path, text, comments, declared, imported, exported, stars };
}

function declaredNames(node: SyntaxNode): string[] {
  if (node.type === 'VariableDeclaration') return (node['declarations'] as { id: { name?: string } }[]).flatMap(({ id }) => id.name ?? []);
  return [(node['id'] as { name?: string } | null | undefined)?.name ?? []].flat();
}
