/** The `vf-export` command: a finished or running evaluation → rollouts for a trainer. */
import { once } from 'node:events';
import { open, realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Command } from 'commander';
import { ConfigError } from '../core/errors.ts';
import { type ExportCounts, exportRun } from '../evaluate/export-run.ts';
import { replaceFile } from '../files/json-lines.ts';
import { packageVersion } from '../data/package-root.ts';
import { type CommandContext, EXIT, runCommand } from './command-line.ts';
import { parseProgram } from './parse-program.ts';

const HELP = `
Each line is one finished rollout: token_ids, loss_mask and logprobs of equal
length, the segments they fall into, the reward with its metrics, and the policy
that sampled it. Rollouts that failed are left out and counted on stderr. The
run must be one of a policy with token ids (vLLM, embedded, the baseline).

  vf-eval search-r1 -n 50 -p vllm -m Qwen/Qwen3-4B
  vf-export outputs/evals/search-r1--Qwen--Qwen3-4B/1a2b3c4d -o rollouts.jsonl
  vf-export <run directory> -o - | head -1 | jq .reward

docs/results.md tells every field; readRollouts('rollouts.jsonl') of the package
reads and checks them.`;

async function main(argv: readonly string[], context: CommandContext): Promise<number> {
  const program = new Command('vf-export')
    .description('Writes the rollouts of an evaluation for a trainer, one JSON object a line.')
    .argument('<run directory>', 'where vf-eval says the results lie: it holds metadata.json')
    .requiredOption('-o, --output <file>', 'file to write, replaced as a whole; - is stdout')
    .version(packageVersion(), '-V, --version')
    .addHelpText('after', HELP);
  const code = parseProgram(program, argv);
  if (code !== null) return code;
  const directory = program.args[0]!;
  const output = program.opts<{ output: string }>().output;
  const counts = await writeOutput(output, (write) =>
    exportRun(directory, async (line) => {
      context.signal.throwIfAborted();
      await write(line);
    }),
  );
  context.note(describe(counts, output));
  return EXIT.done;
}

type Write = (text: string) => Promise<void>;

async function writeOutput(output: string, work: (write: Write) => Promise<ExportCounts>): Promise<ExportCounts> {
  if (output === '') throw new ConfigError('Expected -o to name a file, got an empty text; - is stdout');
  if (output === '-') return work(toStdout);
  const path = await realpath(output).catch(() => output);
  const existing = await stat(path).catch(() => null);
  if (existing?.isDirectory()) throw new ConfigError(`Expected -o to name a file, ${output} is a directory`);
  const parent = await stat(dirname(path)).catch(() => null);
  if (!parent?.isDirectory()) throw new ConfigError(`Expected -o to name a file in a directory that exists, there is no ${dirname(path)}`);
  let counts: ExportCounts | undefined;
  if (existing && !existing.isFile()) {
    // A pipe or a device is written to; only a file can be replaced.
    const file = await open(path, 'w');
    try {
      counts = await work((text) => file.appendFile(text));
    } finally {
      await file.close();
    }
  } else {
    await replaceFile(path, async (write) => void (counts = await work((text) => write(Buffer.from(text, 'utf8')))));
  }
  return counts!;
}

async function toStdout(text: string): Promise<void> {
  if (process.stdout.write(text)) return;
  try {
    await once(process.stdout, 'drain');
  } catch (error) {
    // The reader has seen enough (`| head -1`).
    if ((error as NodeJS.ErrnoException).code === 'EPIPE') process.exit(EXIT.done);
    throw error;
  }
}

function describe({ exported, errored, cut, withoutTokens }: ExportCounts, output: string): string {
  const left = [
    [errored, 'failed'],
    [cut, 'had a cut context'],
    [withoutTokens, 'have no tokens on file'],
  ].filter(([n]) => n !== 0);
  const where = output === '-' ? 'stdout' : output;
  return `vf-export: ${exported} rollouts written to ${where}${left.length === 0 ? '' : `; left out: ${left.map(([n, why]) => `${n} ${why}`).join(', ')}`}`;
}

await runCommand('vf-export', main);
