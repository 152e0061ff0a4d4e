/** The cost of a command with all its children. Linux only. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

export interface Cost {
  readonly wall_s: number;
  readonly cpu_s: number;
  /** Memory of the largest process. */
  readonly max_rss_mb: number;
}

export interface CostOptions {
  /** Variables in addition to those of this process. */
  readonly env: Readonly<Record<string, string>>;
  /** @default the folder of this process */
  readonly cwd?: string;
}

/** Throws if the command fails. */
export function commandCost(command: readonly string[], { env, cwd }: CostOptions): Cost {
  const { stdout, stderr } = spawnSync('python3', [join(import.meta.dirname, 'peers/cpu.py'), '1', ...command], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
    ...(cwd !== undefined && { cwd }),
  });
  if (stdout === '') throw new Error(`peers/cpu.py could not measure ${command.join(' ')}: ${stderr}`);
  const result = JSON.parse(stdout) as Cost & { exit: number };
  if (result.exit !== 0) throw new Error(`${command.join(' ')} failed with exit status ${result.exit}.`);
  return result;
}
