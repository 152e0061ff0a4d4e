/** The Python that serves inside the sandboxes, read from the files in this folder. */
import { readFile } from 'node:fs/promises';

export type Role = 'runner' | 'analyst';

/** Modules in the order in which they are loaded; the last one serves. */
const MODULES: Record<Role, readonly string[]> = {
  runner: ['channel', 'plain_names', 'plain_calls', 'plain_expressions', 'plain', 'runner'],
  analyst: ['channel', 'plain_names', 'plain_calls', 'plain_expressions', 'plain', 'rewriting', 'measures', 'hidden_imports', 'analysis', 'analyst'],
};

export interface PythonSources {
  /** The program for `python -c`. */
  readonly boot: string;
  readonly form: 'source';
  /** Names and sources in turn. */
  readonly modules: readonly string[];
}

export async function readPythonSources(role: Role): Promise<PythonSources> {
  const modules = await Promise.all(MODULES[role].map(async (name) => [name, await source(name)]));
  return { boot: await source('boot'), form: 'source', modules: modules.flat() };
}

const source = (name: string): Promise<string> => readFile(new URL(`./python/${name}.py`, import.meta.url), 'utf8');
