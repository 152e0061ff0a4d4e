/** `vf-init`: writes a new environment and prints the commands that evaluate and test it. */
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
  if (agent !== undefined && agent !== 'command') process.stdout.write(`${installCommand(agent, { id, folder, names })}\n`);
  process.stdout.write(`${ownCommand('vf-eval', [id, ...dirFlag])}\n`);
  const test = shellCommand(['npx', 'tsx', '--test', join(folder, 'environment.test.ts')]);
  const install = shellCommand(['npm', 'install', IS_PUBLISHED ? 'vf-search' : packageRoot(), 'tsx']);
  process.stdout.write(`${canResolvePackage() ? '' : `${install} && `}${test}\n`);
}

/** A folder without a package.json, as in the repository of vf-search, gets no packages of its own. */
function installCommand(
  agent: AgentKind,
  { id, folder, names }: { readonly id: string; readonly folder: string; readonly names: readonly string[] },
): string {
  if (names.includes('package.json')) return shellCommand(['npm', 'install', '--prefix', folder]);
  const packages = Object.entries(agentTemplate(agent, id).dependencies).map(([name, version]) => `${name}@${version}`);
  return shellCommand(['npm', 'install', ...packages]);
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
