/** `vf-train --dry-run`: prints what would run, and what was checked of its surroundings. */
import { checkStart, type DiskOf } from '../../doctor/check-start.ts';
import { runTarget } from '../../doctor/doctor-target.ts';
import { type Finding, ok, warning } from '../../sessions/finding.ts';
import { type TrainingDryRun, trainingDryRun } from '../../sessions/training/training-dry-run.ts';
import { comparedInputs } from '../../sessions/training/run-training.ts';
import type { TrainingSetup } from '../../sessions/training/resolve-training.ts';
import { printable } from '../../reports/text/terminal-text.ts';
import { type CommandContext, EXIT } from '../command-line.ts';
import { checkedLines, isWell } from '../doctor/render-findings.ts';
import { withFlags } from './key-flags.ts';
import type { AdapterPush } from './push-adapter.ts';

interface DryOptions {
  /** US dollars for one GPU and hour; null shows no prices. */
  readonly gpuPrice: number | null;
  /** The hub has been asked. */
  readonly push: AdapterPush | null;
}

/** Returns the exit code. */
export async function dryTraining(setup: TrainingSetup, { gpuPrice, push }: DryOptions, context: CommandContext): Promise<number> {
  const { redact } = context;
  const { text, findings } = await checkedDryRun(setup, { gpuPrice, push }, context);
  process.stdout.write(printable(redact(text)));
  return isWell(findings) ? EXIT.done : EXIT.usage;
}

/** Its advice names flags. */
export function flagged(finding: Finding): Finding {
  return finding.remedy === undefined ? finding : { ...finding, remedy: withFlags(finding.remedy) };
}

export interface CheckedRun extends TrainingDryRun {
  readonly findings: readonly Finding[];
  /** Null if the base is not here. */
  readonly diskOf: DiskOf | null;
}

export async function checkedDryRun(
  setup: TrainingSetup,
  { gpuPrice, push }: DryOptions,
  { signal, note }: Pick<CommandContext, 'signal' | 'note'>,
): Promise<CheckedRun> {
  const variables = process.env;
  const target = { ...runTarget(setup), config: setup.config };
  const findings: Finding[] = [];
  let diskOf: DiskOf | null = null;
  const onDisk = (of: DiskOf | null) => (diskOf = of);
  const { changes } = await comparedInputs(setup, { variables });
  if (setup.resumeDirectory !== null)
    findings.push(
      changes.length === 0
        ? ok('inputs', 'the files that the run names have not changed since it began')
        : warning('inputs', changes.map(({ text }) => text).join('; '), 'the run continues with the changed ones'),
    );
  const run = await trainingDryRun(setup, {
    variables,
    note: (line) => note(withFlags(line)),
    gpuPrice,
    signal,
    check: async (opened) => {
      for await (const finding of checkStart({ ...opened, target, variables, onDisk, signal })) findings.push(flagged(finding));
      if (push !== null) findings.push(ok('push', `the token may write to ${push.hub.name}`));
      return checkedLines(findings);
    },
  });
  return { ...run, findings, diskOf };
}
