/** `vf-train FILE --dry-run` of a file with `[[ablation]]`: its runs, their sizes, and whether each could begin. Samples and trains nothing. */
import { canonicalJson } from '../../core/canonical-json.ts';
import { countText, plural, usdText } from '../../reports/text/number-text.ts';
import { escapeControls, printable } from '../../reports/text/terminal-text.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { inRun, type PlannedAblation, type PlannedTraining } from '../../sessions/training/plan-ablations.ts';
import { totalSteps } from '../../trainer/config/training-schedule.ts';
import { type CommandContext, EXIT } from '../command-line.ts';

export interface AblationDryRunOptions {
  readonly json: boolean;
  readonly context: CommandContext;
}

export async function ablationDryRun(ablations: readonly PlannedAblation[], { json, context }: AblationDryRunOptions): Promise<number> {
  const first = await checkParts(ablations, context);
  if (json) process.stdout.write(`${context.redact(JSON.stringify({ ablations: ablations.map(toWire) }))}\n`);
  else process.stdout.write(printable(context.redact([...ablations.map(ablationText), `The first run:\n\n${first}`].join('\n'))));
  return EXIT.done;
}

/**
 * Opens each environment, role, loss and adapter that the runs name, once, and returns the dry run of the first run. Throws the error of the first that cannot be
 * opened, which then names its run.
 */
export async function checkParts(ablations: readonly PlannedAblation[], { note, signal }: Pick<CommandContext, 'note' | 'signal'>): Promise<string> {
  const { trainingDryRun } = await import('../../sessions/training/training-dry-run.ts');
  const seen = new Set<string>();
  let first: string | null = null;
  for (const { where, runs } of ablations)
    for (const [i, { run, setup }] of runs.entries()) {
      const { name: _name, seed: _seed, optimizer: _optimizer, steps: _steps, output_dir: _output, ...parts } = setup.wire;
      const key = canonicalJson(parts);
      if (seen.has(key)) continue;
      seen.add(key);
      const text = await inRun(`Run ${i + 1} of ${runs.length} of ${where} (${run.label})`, () =>
        trainingDryRun(setup, { variables: process.env, note, signal }),
      );
      first ??= text;
    }
  return first!;
}

function ablationText({ name, runs }: PlannedAblation): string {
  const lines = runs.map(({ run, setup, record }, i) => {
    const state = record.state === 'planned' ? '' : ` (${record.state})`;
    return `${countText(i + 1).padStart(5)}  ${escapeControls(run.label)}${state}  ${sizeText(setup.config)}`;
  });
  const configs = runs.map(({ setup }) => setup.config);
  const rollouts = configs.reduce((sum, config) => sum + rolloutsOf(config), 0);
  const most = configs.reduce((sum, { guards }) => sum + (guards.maxCost ?? NaN), 0);
  const total = `${plural(runs.length, 'run')}, ${plural(
    configs.reduce((sum, config) => sum + totalSteps(config), 0),
    'step',
  )}, ${plural(rollouts, 'rollout')} to train on${Number.isNaN(most) ? '' : `, at most ${usdText(most)} for the models by role`}`;
  return `${escapeControls(name)}: ${total}\n${lines.join('\n')}\n`;
}

function sizeText(config: TrainingConfig): string {
  return `${plural(totalSteps(config), 'step')}${config.steps === 0 ? '' : `, ${plural(rolloutsOf(config), 'rollout')}`}`;
}

function rolloutsOf({ steps, rollouts }: TrainingConfig): number {
  return steps * rollouts.examplesPerStep * rollouts.rolloutsPerExample;
}

function toWire({ name, directory, runs }: PlannedAblation): object {
  const run = ({ run: { label, name: runName }, setup: { config }, record }: PlannedTraining) => ({
    name: runName,
    label,
    settings: record.settings,
    state: record.state,
    steps: totalSteps(config),
    rollouts: rolloutsOf(config),
  });
  return { name, directory, runs: runs.map(run) };
}
