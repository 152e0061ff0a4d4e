/** `vf-train FILE --dry-run` of a file with `[[ablation]]`: its runs, their sizes, and whether each could begin. Samples and trains nothing. */
import { canonicalJson } from '../../core/canonical-json.ts';
import { countText, figureText, plural, usdText } from '../../reports/text/number-text.ts';
import { escapeControls, jsonLine, printable } from '../../reports/text/terminal-text.ts';
import type { TrainingConfig } from '../../schemas/training-config.ts';
import { inRun, type PlannedAblation, type PlannedTraining } from '../../sessions/training/plan-ablations.ts';
import { totalSteps } from '../../trainer/config/training-schedule.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { checkDisk } from '../../doctor/check-machine.ts';
import { sumOfDisk } from '../../doctor/estimate-disk.ts';
import type { Finding } from '../../sessions/finding.ts';
import { checkedLines, findingLines, isWell } from '../doctor/render-findings.ts';
import type { CheckedRun } from './dry-training.ts';

export interface AblationDryRunOptions {
  readonly json: boolean;
  /** US dollars for one GPU and hour; null shows no prices. */
  readonly gpuPrice: number | null;
  readonly context: CommandContext;
}

/** Checks the surroundings of each distinct set-up, as the dry run of a single training does. Returns the exit code. */
export async function ablationDryRun(ablations: readonly PlannedAblation[], { json, gpuPrice, context }: AblationDryRunOptions): Promise<number> {
  const { checkedDryRun, flagged } = await import('./dry-training.ts');
  const checked = new Map<string, CheckedSetup>();
  await eachSetup(ablations, async (planned, which) => {
    checked.set(partsOf(planned), { which, ...(await checkedDryRun(planned.setup, { gpuPrice, push: null }, context)) });
  });
  const sums = ablations.map((ablation) => sumOf(ablation, checked, gpuPrice));
  const disks = (await diskFindings(ablations, checked)).map(flagged);
  if (json) process.stdout.write(context.redact(jsonLine({ ablations: ablations.map((ablation, i) => toWire(ablation, sums[i]!)) })));
  else {
    const texts = ablations.map((ablation, i) => ablationText(ablation, sums[i]!));
    const ofDisks = disks.length === 0 ? [] : [`${findingLines(disks).join('\n')}\n`];
    process.stdout.write(printable(context.redact([...texts, ...ofDisks, ...[...checked.values()].map(setupText)].join('\n'))));
  }
  return [...[...checked.values()].map(({ findings }) => findings), disks].every(isWell) ? EXIT.done : EXIT.usage;
}

/** The space that the runs which are not finished take together, for each folder of runs; none where a base is not here, which the set-up's own line says. */
async function diskFindings(ablations: readonly PlannedAblation[], checked: ReadonlyMap<string, CheckedRun>): Promise<Finding[]> {
  const left = ablations.flatMap(({ runs }) => runs).filter(({ record }) => record.state !== 'finished');
  const findings: Finding[] = [];
  for (const [folder, runs] of Map.groupBy(left, ({ setup }) => setup.config.outputDir)) {
    const estimates = runs.map((planned) => checked.get(partsOf(planned))!.diskOf?.(planned.setup.config) ?? null);
    const known = estimates.filter((estimate) => estimate !== null);
    if (known.length === estimates.length && known.length > 1)
      findings.push(await checkDisk(folder, sumOfDisk(known), `the ${plural(known.length, 'run')} together need`));
  }
  return findings;
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
      const key = partsOf(planned);
      if (seen.has(key)) continue;
      seen.add(key);
      const which = `Run ${i + 1} of ${runs.length} of ${where} (${planned.run.label})`;
      await inRun(which, () => visit(planned, which));
    }
}

/** Equal for runs with the same set-up. */
function partsOf({ setup }: PlannedTraining): string {
  const { name: _name, seed: _seed, optimizer: _optimizer, steps: _steps, output_dir: _output, ...parts } = setup.wire;
  return canonicalJson(parts);
}

/** Of all runs of an ablation, at most or by estimate; null if one of them is unknown. */
interface Sum {
  readonly mostTokens: number | null;
  readonly gpuHours: number | null;
  /** US dollars of the GPUs; null without a price of one. */
  readonly usd: number | null;
}

function sumOf({ runs }: PlannedAblation, checked: ReadonlyMap<string, CheckedRun>, gpuPrice: number | null): Sum {
  const sum = (of: (run: CheckedRun) => number | null) =>
    runs.reduce<number | null>((total, planned) => {
      const each = of(checked.get(partsOf(planned))!);
      return total === null || each === null ? null : total + planned.setup.config.steps * each;
    }, 0);
  const gpuHours = sum((run) => run.gpuHours);
  return { mostTokens: sum(({ mostTokens }) => mostTokens), gpuHours, usd: gpuHours === null || gpuPrice === null ? null : gpuHours * gpuPrice };
}

function ablationText({ name, runs }: PlannedAblation, { mostTokens, gpuHours, usd }: Sum): string {
  const lines = runs.map(({ run, setup, record }, i) => {
    const state = record.state === 'planned' ? '' : ` (${record.state})`;
    return `${countText(i + 1).padStart(5)}  ${escapeControls(run.label)}${state}  ${sizeText(setup.config)}`;
  });
  const configs = runs.map(({ setup }) => setup.config);
  const rollouts = configs.reduce((sum, config) => sum + rolloutsOf(config), 0);
  const most = configs.reduce((sum, { guards }) => sum + (guards.maxCost ?? NaN), 0);
  const tokens = mostTokens === null || mostTokens === 0 ? '' : ` (at most ${plural(mostTokens, 'token')})`;
  const total = `${plural(runs.length, 'run')}, ${plural(
    configs.reduce((sum, config) => sum + totalSteps(config), 0),
    'step',
  )}, ${plural(rollouts, 'rollout')} to train on${tokens}${Number.isNaN(most) ? '' : `, at most ${usdText(most)} for the models by role`}`;
  const hours = gpuHours === null ? '' : `; about ${figureText(gpuHours)} GPU hours${usd === null ? '' : `, ${usdText(usd)}`}`;
  return `${escapeControls(name)}: ${total}${hours}\n${lines.join('\n')}\n`;
}

function sizeText(config: TrainingConfig): string {
  return `${plural(totalSteps(config), 'step')}${config.steps === 0 ? '' : `, ${plural(rolloutsOf(config), 'rollout')}`}`;
}

function rolloutsOf({ steps, rollouts }: TrainingConfig): number {
  return steps * rollouts.examplesPerStep * rollouts.rolloutsPerExample;
}

function toWire({ name, directory, runs }: PlannedAblation, { mostTokens, gpuHours, usd }: Sum): object {
  const run = ({ run: { label, name: runName }, setup: { config }, record }: PlannedTraining) => ({
    name: runName,
    label,
    settings: record.settings,
    state: record.state,
    steps: totalSteps(config),
    rollouts: rolloutsOf(config),
  });
  return { name, directory, most_tokens: mostTokens, gpu_hours: gpuHours, usd, runs: runs.map(run) };
}
