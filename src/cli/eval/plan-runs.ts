/** Turns the command line into a list of runs: one environment, or all runs of a TOML file. */
import { existsSync, statSync } from 'node:fs';
import { ConfigError } from '../../core/errors.ts';
import { recordedRun } from '../../sessions/evaluation/recorded-run.ts';
import { flagOf } from '../options/option.ts';
import { DISPLAY, EVAL_OPTIONS, type Settings } from './eval-options.ts';
import { type PlannedRun, readTomlConfig } from './toml-config.ts';
import { shellCommand } from '../../reports/text/own-command.ts';

/** Throws ConfigError if the target is a run, the file is missing, or options set what the runs of a file set. */
export async function planRuns(target: string, settings: Settings): Promise<readonly PlannedRun[]> {
  const recorded = recordedRun(target);
  if (recorded !== null) {
    throw new ConfigError(
      `${target} is a run of ${recorded.envId}, not an environment. Continue it with ${shellCommand(['vf-eval', recorded.envId, '-R', target])} and the options that started it.`,
    );
  }
  if (!isFileOfRuns(target)) return [{ name: settings.name ?? null, envId: target, settings }];
  const misplaced = Object.keys(settings).filter((name) => !worksWithFile(name as keyof Settings));
  if (misplaced.length > 0) {
    throw new ConfigError(
      `${misplaced.map(flagOf).join(', ')} cannot be combined with ${target}: put the settings of runs into the file. Only display flags and -R without a directory can be combined with it.`,
    );
  }
  if (typeof settings.resume === 'string') throw new ConfigError(`-R takes no directory with ${target}, because it continues every run of the file`);
  if (existsSync(target) && statSync(target).isDirectory()) throw new ConfigError(`${target} is a directory, not a TOML file`);
  const runs = await readTomlConfig(target);
  return runs.map((run) => ({ ...run, settings: { ...run.settings, ...settings } }));
}

export function isFileOfRuns(target: string): boolean {
  return target.endsWith('.toml');
}

function worksWithFile(name: keyof Settings): boolean {
  return EVAL_OPTIONS[name].group === DISPLAY || name === 'resume' || name === 'allowChanges' || name === 'saveResults';
}
