/** What the command line asks for as a list of runs: one environment, or everything a TOML file describes. */
import { existsSync, statSync } from 'node:fs';
import { ConfigError } from '../../core/errors.ts';
import type { Arguments } from './arguments.ts';
import { type Flag, type FlagName, FLAGS } from './flags.ts';
import { recordedRun } from './recorded-run.ts';
import { type PlannedRun, readTomlConfig } from './toml-config.ts';

export interface Plan {
  readonly runs: readonly PlannedRun[];
  /** The file they come from; null when the command line says it all. */
  readonly file: string | null;
}

/** Throws ConfigError when nothing is named, when the file is missing, and when run settings stand beside a file. */
export async function planRuns({ target, settings, given }: Arguments): Promise<Plan> {
  if (target === null) throw new ConfigError('Name an environment or a TOML file: try vf-eval search-r1, or vf-eval --help');
  const recorded = recordedRun(target);
  if (recorded !== null) {
    throw new ConfigError(
      `${target} is not an environment but a run of ${recorded.envId}. Continue it with vf-eval ${recorded.envId} -R ${target}, with the options it was started with`,
    );
  }
  if (!target.endsWith('.toml')) return { runs: [{ name: null, envId: target, settings }], file: null };
  const misplaced = given.filter((name) => !mayStandBesideFile(name));
  if (misplaced.length > 0) {
    const list = [...new Set(misplaced)].map((name) => `--${name}`).join(', ');
    throw new ConfigError(
      `${list} cannot be used beside ${target}: the settings of the runs belong into the file. Only display flags and a bare -R go beside it.`,
    );
  }
  if (typeof settings.resume === 'string') throw new ConfigError(`-R takes no directory beside ${target}: it continues every run of the file`);
  if (existsSync(target) && statSync(target).isDirectory()) throw new ConfigError(`${target} is a directory, not a TOML file`);
  const runs = await readTomlConfig(target);
  const display = Object.fromEntries(Object.entries(settings).filter(([name]) => mayStandBesideFile(name)));
  return { runs: runs.map((run) => ({ ...run, settings: { ...run.settings, ...display } })), file: target };
}

function mayStandBesideFile(name: string): boolean {
  const flag = FLAGS.find((f: Flag) => f.name === (name as FlagName));
  return flag?.group === 'Display' || name === 'resume' || name === 'save-results';
}
