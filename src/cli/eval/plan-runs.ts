/** Turns the command line into a list of runs: one environment, or all runs of a TOML file. */
import { existsSync, statSync } from 'node:fs';
import { ConfigError } from '../../core/errors.ts';
import type { Arguments } from './arguments.ts';
import { type Flag, type FlagName, FLAGS } from './flags.ts';
import { recordedRun } from '../../sessions/evaluation/recorded-run.ts';
import { type PlannedRun, readTomlConfig } from './toml-config.ts';

export interface Plan {
  readonly runs: readonly PlannedRun[];
  /** The TOML file; null for a single run from the command line. */
  readonly file: string | null;
}

/** Throws ConfigError if no environment or file is named, the file is missing, or flags set run settings in addition to a file. */
export async function planRuns({ target, settings, given }: Arguments): Promise<Plan> {
  if (target === null) throw new ConfigError('Name an environment or a TOML file; try vf-eval search-r1, or vf-eval --help');
  const recorded = recordedRun(target);
  if (recorded !== null) {
    throw new ConfigError(
      `${target} is a run of ${recorded.envId}, not an environment. Continue it with vf-eval ${recorded.envId} -R ${target} and the options that started it.`,
    );
  }
  if (!target.endsWith('.toml')) return { runs: [{ name: null, envId: target, settings }], file: null };
  const misplaced = given.filter((name) => !worksWithFile(name));
  if (misplaced.length > 0) {
    const list = [...new Set(misplaced)].map((name) => `--${name}`).join(', ');
    throw new ConfigError(
      `${list} cannot be combined with ${target}: put the settings of runs into the file. Only display flags and -R without a directory can be combined with it.`,
    );
  }
  if (typeof settings.resume === 'string') throw new ConfigError(`-R takes no directory with ${target}, because it continues every run of the file`);
  if (existsSync(target) && statSync(target).isDirectory()) throw new ConfigError(`${target} is a directory, not a TOML file`);
  const runs = await readTomlConfig(target);
  const display = Object.fromEntries(Object.entries(settings).filter(([name]) => worksWithFile(name)));
  return { runs: runs.map((run) => ({ ...run, settings: { ...run.settings, ...display } })), file: target };
}

function worksWithFile(name: string): boolean {
  const flag = FLAGS.find((f: Flag) => f.name === (name as FlagName));
  return flag?.group === 'Display' || name === 'resume' || name === 'save-results';
}
