/** `vf-train FILE --dry-run` of a file with `[[ablation]]`: its runs, their sizes, and whether each could begin. Samples and trains nothing. */
import { canonicalJson } from '../../core/canonical-json.ts';
import { countText, plural, usdText } from '../../reports/text/number-text.ts';
import { escapeControls, printable } from '../../reports/text/terminal-text.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { inRun, type PlannedAblation, type PlannedTraining } from '../../sessions/training/plan-ablations.ts';
import { totalSteps } from '../../trainer/config/training-schedule.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { checkedLines, isWell } from '../doctor/render-findings.ts';
import type { CheckedRun } from './dry-training.ts';

export interface AblationDryRunOptions {
  readonly json: boolean;
  /** US dollars for one GPU and hour; null shows no prices. */
  readonly gpuPrice: number | null;
  readonly context: CommandContext;
}

/** Checks the surroundings of each distinct set-up, as the dry run of a single training does. Returns the exit code. */
export async function ablationDryRun(ablations: readonly PlannedAblation[], { json, gpuPrice, context }: AblationDryRunOptions): Promise<number> {
  const { checkedDryRun } = await import('./dry-training.ts');
  const checked: CheckedSetup[] = [];
  await eachSetup(ablations, async (planned, which) => {
    const { text, findings } = await checkedDryRun(planned.setup, { gpuPrice, push: null }, context);
    checked.push({ which, text, findings });
  });
  if (json) process.stdout.write(`${context.redact(JSON.stringify({ ablations: ablations.map(toWire) }))}\n`);
  else process.stdout.write(printable(context.redact([...ablations.map(ablationText), ...checked.map(setupText)].join('\n'))));
  return checked.every(({ findings }) => isWell(findings)) ? EXIT.done : EXIT.usage;
}

interface CheckedSetup extends CheckedRun {
  /** `Run 1 of 4 of [[ablation]] 1 of runs.toml (seed 0)` */
  readonly which: string;
}

/** The first set-up whole; of the others, what was checked. */
function setupText({ which, text, findings }: CheckedSetup, place: number): string {
  return place === 0 ? `The first run:\n\n${text}` : `${escapeControls(which)}:\n\n${checkedLines(findings).join('\n')}\n`;
}

/** Opens each environment, role, loss and adapter that the runs name, once. Throws the error of the first that cannot be opened, which then names its run. */
export async function checkParts(ablations: readonly PlannedAblation[], { note, signal }: Pick<CommandContext, 'note' | 'signal'>): Promise<void> {
  const { trainingDryRun } = await import('../../sessions/training/training-dry-run.ts');
  await eachSetup(ablations, async ({ setup }) => void (await trainingDryRun(setup, { variables: process.env, note, signal })));
}

/** The first run of each set-up: runs that differ in seed, optimiser, steps and place alone have the same one. */
async function eachSetup(ablations: readonly PlannedAblation[], visit: (planned: PlannedTraining, which: string) => Promise<void>): Promise<void> {
  const seen = new Set<string>();
  for (const { where, runs } of ablations)
    for (const [i, planned] of runs.entries()) {
      const { name: _name, seed: _seed, optimizer: _optimizer, steps: _steps, output_dir: _output, ...parts } = planned.setup.wire;
      const key = canonicalJson(parts);
      if (seen.has(key)) continue;
      seen.add(key);
      const which = `Run ${i + 1} of ${runs.length} of ${where} (${planned.run.label})`;
      await inRun(which, () => visit(planned, which));
    }
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
