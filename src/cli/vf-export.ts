/** The `vf-export` command: exports the rollouts of a finished or running evaluation for a trainer. */
import { Command } from 'commander';
import { ConfigError } from '../core/errors.ts';
import { type ExportCounts, type ExportOptions, exportRun } from '../evaluate/export-run.ts';
import { packageVersion } from '../data/package-root.ts';
import { type CommandContext, EXIT, runCommand } from './command-line.ts';
import { parseProgram } from './parse-program.ts';
import { writeOutput } from './write-output.ts';

const HELP = `
Each line is one finished rollout: token_ids, loss_mask and logprobs of equal
length, the segments they belong to, the reward and its metrics, and the policy
that sampled it. Failed rollouts are left out and counted on stderr. Only runs
with token ids can be exported (vLLM, embedded), not those over a chat API.

  vf-eval search-r1 -n 50 -p vllm -m Qwen/Qwen3-4B
  vf-export outputs/evals/search-r1--Qwen--Qwen3-4B/1a2b3c4d -o rollouts.jsonl
  vf-export <run directory> -o - | head -1 | jq .reward

Rejection sampling in two commands: supervised rows from the rollouts that were
rewarded, at most the best two of each row, and supervised steps on them.

  vf-export <run directory> --sft --min-reward 1 --best 2 -o good.jsonl
  vf-train search-r1 -m Qwen/Qwen3-4B --sft good.jsonl --launch

A training run keeps the rollouts of its steps. --step exports those of one.

  vf-export outputs/train/RUN --step 12 -o step-12.jsonl
  vf-export outputs/train/RUN --step 12 --sft --best 1 -o good.jsonl

docs/results.md describes every field; readRollouts('rollouts.jsonl') of the
package reads and checks them.`;

interface Flags {
  readonly output: string;
  readonly step?: string;
  readonly sft?: boolean;
  readonly minReward?: string;
  readonly best?: string;
}

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  const program = new Command('vf-export')
    .description('Writes the rollouts of an evaluation, or of a step of a training, for a trainer, one JSON object per line.')
    .argument('<run directory>', 'the results folder that vf-eval printed, or the folder of a training run')
    .requiredOption('-o, --output <file>', 'file to write; an existing file is replaced; - is stdout')
    .option('--step <n>', 'export the rollouts of this step of a training run')
    .option('--sft', 'write supervised rows for vf-train --sft: the token ids and which of them the policy wrote')
    .option('--min-reward <x>', 'leave out rollouts with a lower reward')
    .option('--best <k>', 'keep at most the k best rollouts of each row of the data')
    .version(packageVersion(), '-V, --version')
    .addHelpText('after', HELP);
  const code = parseProgram(program, argv);
  if (code !== null) return code;
  const directory = program.args[0]!;
  const { output, step: named, sft = false, minReward, best } = program.opts<Flags>();
  const step = named === undefined ? null : parseCount('--step', named);
  const options = {
    asDemonstrations: sft,
    ...(minReward === undefined ? {} : { minReward: parseNumber('--min-reward', minReward) }),
    ...(best === undefined ? {} : { best: parseCount('--best', best) }),
  };
  const counts = await writeOutput(output, async (write) => {
    const writeLine = async (line: string) => {
      context.signal.throwIfAborted();
      await write(line);
    };
    const found = await exportFrom(directory, step, writeLine, options);
    // Thrown before a file of the same name is replaced.
    if (found.exported === 0) throw nothingToWrite(found, { directory, step, minReward });
    return found;
  });
  context.note(describe(counts, output));
  return EXIT.done;
}

async function exportFrom(
  directory: string,
  step: number | null,
  write: (line: string) => Promise<void>,
  options: ExportOptions,
): Promise<ExportCounts> {
  const { exportTrainingStep, isTrainingRun } = await import('./export/export-training-step.ts');
  if (isTrainingRun(directory)) return await exportTrainingStep(directory, step, write, options);
  if (step !== null) throw new ConfigError(`${directory} is not a training run, so it has no steps. Leave --step out.`);
  return await exportRun(directory, write, options);
}

function parseNumber(flag: string, text: string): number {
  const value = text.trim() === '' ? NaN : Number(text);
  if (Number.isFinite(value)) return value;
  throw new ConfigError(`${flag} must be a number, got ${JSON.stringify(text)}`);
}

function parseCount(flag: string, text: string): number {
  const value = parseNumber(flag, text);
  if (Number.isInteger(value) && value > 0) return value;
  throw new ConfigError(`${flag} must be a whole number of at least 1, got ${JSON.stringify(text)}`);
}

interface Asked {
  readonly directory: string;
  readonly step: number | null;
  readonly minReward: string | undefined;
}

function nothingToWrite(counts: ExportCounts, { directory, step, minReward }: Asked): ConfigError {
  const where = step === null ? directory : `step ${step} of ${directory}`;
  const left = leftOut(counts);
  if (left === '') return new ConfigError(`No rollout is recorded in ${where}; nothing was written`);
  const which = minReward === undefined ? 'is whole' : `has a reward of at least ${minReward} and is whole`;
  return new ConfigError(`No rollout of ${where} ${which}; nothing was written${left}${minReward === undefined ? '' : '. Lower --min-reward'}`);
}

function describe(counts: ExportCounts, output: string): string {
  return `vf-export: ${counts.exported} rollouts written to ${output === '-' ? 'stdout' : output}${leftOut(counts)}`;
}

/** Empty if every rollout was written. */
function leftOut({ errored, cut, withoutTokens, unplayed, unpaid = 0, unselected }: ExportCounts): string {
  const left = [
    [errored, 'failed'],
    [cut, 'had their context cut'],
    [withoutTokens, 'have no recorded tokens'],
    [unplayed, 'have no token of the policy'],
    [unpaid, 'have no reward yet'],
    [unselected, 'not selected by --min-reward or --best'],
  ].filter(([n]) => n !== 0);
  return left.length === 0 ? '' : `; left out: ${left.map(([n, why]) => `${n} ${why}`).join(', ')}`;
}

await runCommand('vf-export', main);
