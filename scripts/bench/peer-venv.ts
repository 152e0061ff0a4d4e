/** Virtual environments of Python peers, outside the repository; created on first use and kept. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** Has torch without CUDA; PyPI's build for Linux on x86-64 includes gigabytes of it. */
const TORCH_CPU_INDEX = 'https://download.pytorch.org/whl/cpu';

/** The `bin` directory of the environment with verifiers 0.1.14. */
export function verifiersVenv(): string {
  return peerVenv('verifiers-v0', ['verifiers==0.1.14']);
}

/** Path of the environment's `bin` directory, with exactly these pip requirements installed. Takes a minute the first time. */
export function peerVenv(name: string, requirements: readonly string[]): string {
  const base = process.env['VF_BENCH_DIR'] ?? join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'vf-search', 'bench');
  const directory = join(base, name);
  const bin = join(directory, 'bin');
  const installed =
    existsSync(join(bin, 'python')) && run(join(bin, 'python'), ['-m', 'pip', 'freeze', '--disable-pip-version-check'], 'ignore').stdout;
  const pinned = (r: string) => new RegExp(`^${r.replaceAll('.', '\\.')}(\\+\\w+)?$`, 'im');
  if (installed && requirements.every((r) => pinned(r).test(installed))) return bin;
  process.stderr.write(`installing ${requirements.join(' ')} into ${directory}\n`);
  mkdirSync(base, { recursive: true });
  run('python3', ['-m', 'venv', directory], 'inherit');
  const install = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
  const torch = requirements.filter((requirement) => requirement.startsWith('torch=='));
  // A separate command, so that the extra index is used only for torch and its dependencies. If that index does not answer, PyPI's build works too.
  if (torch.length > 0) run(join(bin, 'python'), [...install, '--retries', '0', '--extra-index-url', TORCH_CPU_INDEX, ...torch], 'inherit');
  run(join(bin, 'python'), [...install, ...requirements], 'inherit');
  return bin;
}

function run(command: string, args: readonly string[], stderr: 'inherit' | 'ignore'): { stdout: string } {
  const { status, stdout } = spawnSync(command, args, { stdio: ['ignore', 'pipe', stderr], encoding: 'utf8' });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed with exit status ${status}.`);
  return { stdout };
}
