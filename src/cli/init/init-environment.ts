/** `vf-init`: writes a new environment and prints the commands that evaluate and test it. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { IS_PUBLISHED } from '../../core/is-published.ts';
import { packageRoot } from '../../data/package-root.ts';
import { ownCommand, shellCommand } from '../../reports/text/own-command.ts';
import type { CommandContext } from '../command-line.ts';
import type { AgentKind } from '../../templates/agent-kinds.ts';
import { agentTemplate } from '../../templates/agent-template.ts';
import { writeEnvironment } from '../../templates/write-environment.ts';

interface WriteOptions {
  /** Folder of the environments. */
  readonly dir: string;
  readonly tools?: boolean | undefined;
  readonly agent?: AgentKind | undefined;
}

export function initEnvironment(id: string, { dir, tools = false, agent }: WriteOptions, { note }: CommandContext): void {
  const directory = dir.replace(/(?<=.)\/+$/, '');
  const names = writeEnvironment({ id, directory, kind: agent ?? (tools ? 'tools' : 'tags') });
  const folder = join(directory, id);
  note(`vf-init: wrote ${names.join(', ')} in ${folder}; next:`);
  const dirFlag = resolve(directory) === resolve('environments') ? [] : ['--env-dir-path', directory];
  const packages = agent === undefined ? [] : missingPackages(agentTemplate(agent, id).dependencies, folder);
  const own = names.includes('package.json') ? ['--prefix', folder] : packages;
  if (packages.length > 0) process.stdout.write(`${shellCommand(['npm', 'install', ...own])}\n`);
  process.stdout.write(`${ownCommand('vf-eval', [id, ...dirFlag])}\n`);
  const test = shellCommand(['npx', 'tsx', '--test', join(folder, 'environment.test.ts')]);
  const install = shellCommand(['npm', 'install', IS_PUBLISHED ? 'vf-search' : packageRoot(), 'tsx']);
  process.stdout.write(`${canResolvePackage() ? '' : `${install} && `}${test}\n`);
}

/** Those that the folder cannot import yet: in a clone of vf-search most are there. */
function missingPackages(dependencies: Readonly<Record<string, string>>, folder: string): readonly string[] {
  const { paths } = createRequire(resolve(folder, 'any.js')).resolve as { readonly paths: (name: string) => readonly string[] | null };
  const isThere = (name: string) => (paths(name) ?? []).some((modules) => existsSync(join(modules, name, 'package.json')));
  return Object.entries(dependencies).flatMap(([name, version]) => (isThere(name) ? [] : [`${name}@${version}`]));
}

function canResolvePackage(): boolean {
  try {
    createRequire(join(process.cwd(), 'any.js')).resolve('vf-search/package.json');
    return true;
  } catch {
    // The package is not installed here: the printed commands install it.
    return false;
  }
}
