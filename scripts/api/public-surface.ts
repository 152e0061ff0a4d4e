/** The package's public surface as text: every name of every entry of package.json with its signature. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Declaration, Declarations } from './declarations.ts';
import { docstringOf, signatureOf } from './signature.ts';

const root = join(import.meta.dirname, '../..');

interface Surface {
  /** File name → text: one per entry, or per folder of entries, and `mentioned.txt`. */
  readonly reports: ReadonlyMap<string, string>;
  /** Entry → number of its names. */
  readonly counts: ReadonlyMap<string, number>;
  /** Faults of docstrings and signatures, one line each. */
  readonly faults: readonly string[];
}

export function publicSurface(): Surface {
  const sources = [...sourcesOfEntries()];
  const declarations = new Declarations(new Map(sources.map(([entry, path]) => [entry.replace('.', 'vf-search'), path])));
  const entries = sources.map(([entry, path]) => ({ entry, names: declarations.exportsOf(path) }));
  const reports = new Map<string, string>();
  for (const { entry, names } of entries) {
    const file = `${entry === '.' ? 'index' : entry.split('/')[1]!}.txt`;
    const sections = [...names].toSorted(byName).map(([name, declaration]) => sectionOf(name, declaration));
    const part = `## ${entry.replace('.', 'vf-search')}: ${names.size} ${names.size === 1 ? 'name' : 'names'}\n\n${sections.join('\n\n')}\n`;
    reports.set(file, reports.has(file) ? `${reports.get(file)}\n${part}` : part);
  }
  const all = entries.flatMap(({ names }) => [...names.values()]);
  reports.set('mentioned.txt', mentioned(all, declarations));
  const main = entries.find(({ entry }) => entry === '.')!.names;
  const faults = all.flatMap((declaration) =>
    signatureOf(declaration).inferred.map((name) => `${declaration.module.path.slice(root.length + 1)}: ${name} needs a written return type`),
  );
  for (const [name, declaration] of main) faults.push(...docFaults(name, declaration));
  return { reports, counts: new Map(entries.map(({ entry, names }) => [entry, names.size])), faults: [...new Set(faults)] };
}

function* sourcesOfEntries(): Generator<readonly [string, string]> {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { exports: Record<string, string | Record<string, string>> };
  for (const [entry, target] of Object.entries(exports)) if (typeof target === 'object') yield [entry, join(root, target['vf-search-source']!)];
}

function byName<T>([a]: readonly [string, T], [b]: readonly [string, T]): number {
  return a < b ? -1 : 1;
}

function sectionOf(name: string, declaration: Declaration): string {
  return `${name === declaration.name ? '' : `// ${name} is\n`}${signatureOf(declaration).text}`;
}

/** Types that signatures mention and no entry exports: a change of theirs is a change of the surface too. */
function mentioned(all: readonly Declaration[], declarations: Declarations): string {
  const keyOf = ({ module, name }: Declaration) => `${name} ${module.path.slice(root.length + 1)}`;
  const isPublic = new Set(all.map(keyOf));
  const found = new Map<string, Declaration>();
  for (let wave = all; wave.length > 0;) {
    const next = wave.flatMap((declaration) => [...signatureOf(declaration).types].map((type) => declarations.find(declaration.module.path, type)));
    wave = next
      .filter((declaration) => declaration !== null)
      .filter((declaration) => !isPublic.has(keyOf(declaration)) && !found.has(keyOf(declaration)));
    for (const declaration of wave) found.set(keyOf(declaration), declaration);
  }
  const sections = [...found].toSorted(byName).map(([, declaration]) => signatureOf(declaration).text);
  return `## Types that signatures mention and no entry exports: ${found.size}\n\n${sections.join('\n\n')}\n`;
}

function docFaults(name: string, declaration: Declaration): string[] {
  const docstring = docstringOf(declaration);
  if (docstring === '') return [`vf-search: ${name} needs a docstring`];
  const { node } = declaration.nodes[0]!;
  const isCalled = /Function|Class/.test(node.type) && (!name.endsWith('Error') || name === 'VfError');
  return isCalled && !docstring.includes('@example') ? [`vf-search: ${name} needs an @example in its docstring`] : [];
}
